// Colours of terminals, and nothing else: every other escape sequence is dropped, whatever its effect.
import { plain } from "./format.ts";

export type Style = {
  fg?: string; // a class, or #rrggbb
  bg?: string;
  bold?: boolean;
  faint?: boolean;
  italic?: boolean;
  underline?: boolean;
  inverse?: boolean;
  struck?: boolean;
};
export type Span = { text: string; style: Style };

// CSI sequences; strings of OSC, DCS, SOS, PM and APC up to their end (or the line's); other escapes of two or three.
const ESCAPE =
  /\u001b\[([0-?]*)[ -/]*([@-~])|[\u001b][\]PX^_][^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c|$)|\u009b([0-?]*)[ -/]*([@-~])|\u001b[ -/]*[0-~]?/g;

/** The line in pieces of one style each, and the style it ends with. A carriage return begins the line again. */
export function parse(line: string, style: Style): { spans: Span[]; style: Style } {
  const spans: Span[] = [];
  let now = style;
  let last = 0;
  const put = (text: string) => {
    const again = text.replace(/\r+$/, "").lastIndexOf("\r");
    if (again >= 0) spans.length = 0;
    const shown = plain(text.slice(again + 1).replace(/[\r\u0007\u0008]/g, "").replaceAll("\t", "    "));
    if (shown !== "") spans.push({ text: shown, style: now });
  };
  for (const found of line.matchAll(ESCAPE)) {
    if (found.index > last) put(line.slice(last, found.index));
    last = found.index + found[0].length;
    if ((found[2] ?? found[4]) === "m") now = change(now, found[1] ?? found[3] ?? "");
  }
  if (last < line.length) put(line.slice(last));
  return { spans, style: now };
}

function change(style: Style, text: string): Style {
  const codes = text.split(/[;:]/).map((part) => (part === "" ? 0 : Number(part)));
  let now: Style = { ...style };
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at]!;
    if (code === 0) now = {};
    else if (code === 1) now.bold = true;
    else if (code === 2) now.faint = true;
    else if (code === 3) now.italic = true;
    else if (code === 4) now.underline = true;
    else if (code === 7) now.inverse = true;
    else if (code === 9) now.struck = true;
    else if (code === 22) now.bold = now.faint = false;
    else if (code === 23) now.italic = false;
    else if (code === 24) now.underline = false;
    else if (code === 27) now.inverse = false;
    else if (code === 29) now.struck = false;
    else if (code === 39) delete now.fg;
    else if (code === 49) delete now.bg;
    else if (code >= 30 && code <= 37) now.fg = `a${code - 30}`;
    else if (code >= 40 && code <= 47) now.bg = `a${code - 40}`;
    else if (code >= 90 && code <= 97) now.fg = `a${code - 90 + 8}`;
    else if (code >= 100 && code <= 107) now.bg = `a${code - 100 + 8}`;
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(codes.slice(at + 1));
      at += used;
      if (colour !== null) now[code === 38 ? "fg" : "bg"] = colour;
    }
  }
  return now;
}

function extended(rest: number[]): [string | null, number] {
  if (rest[0] === 5) return [indexed(rest[1] ?? 0), 2];
  if (rest[0] === 2) return [hex(rest.slice(1, 4)), 4];
  return [null, 0];
}

function indexed(number: number): string | null {
  if (!(number >= 0 && number <= 255)) return null;
  if (number < 16) return `a${number}`;
  if (number >= 232) return hex(Array<number>(3).fill((number - 232) * 10 + 8));
  const cube = number - 16;
  return hex([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((part) => (part === 0 ? 0 : part * 40 + 55)));
}

function hex(parts: number[]): string | null {
  if (parts.length < 3 || parts.some((part) => !(part >= 0 && part <= 255))) return null;
  return `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
