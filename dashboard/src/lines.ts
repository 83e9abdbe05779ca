// A window on a log: lines made from frames; only lines near the visible part are kept.
import { parse } from "./ansi.ts";
import type { Span, Style } from "./ansi.ts";
import type { OutputFrame } from "./types.ts";

export type Line = {
  offset: number; // where the line begins in the output of both streams
  stream: string;
  late: boolean;
  at: string | null;
  text: string;
  spans: Span[];
  open: boolean; // no end of the line yet
};

type Open = { decoder: TextDecoder; line: Line | null; style: Style; begin: Style };

const LONGEST = 20_000; // characters of one line; a longer line goes on in the next

export class Assembler {
  readonly lines: Line[] = [];
  end: number;
  private readonly streams = new Map<string, Open>();

  constructor(begin: number) {
    this.end = begin;
  }

  take(frame: OutputFrame): void {
    const bytes = Uint8Array.from(atob(frame.data), (one) => one.charCodeAt(0));
    const stream = this.open(frame.stream);
    const encoder = new TextEncoder();
    let offset = frame.offset;
    const text = stream.decoder.decode(bytes, { stream: true });
    const isPlain = text.length === bytes.length; // one byte for each character: no need to count
    let first = true;
    for (const part of text.split("\n")) {
      if (!first) {
        this.close(stream);
        offset += 1;
      }
      first = false;
      if (part === "") continue;
      if (stream.line !== null && stream.line.text.length > LONGEST) this.close(stream);
      if (stream.line === null) {
        stream.begin = stream.style;
        stream.line = { offset, stream: frame.stream, late: frame.late, at: frame.at, text: "", spans: [], open: true };
        this.lines.push(stream.line);
      }
      stream.line.text += part;
      this.style(stream);
      offset += isPlain ? part.length : encoder.encode(part).length;
    }
    // An empty line at the end of a frame becomes a line when the next frame confirms it.
    this.end = Math.max(this.end, frame.offset + bytes.length);
  }

  finish(): void {
    for (const stream of this.streams.values()) this.close(stream);
  }

  private close(stream: Open): void {
    if (stream.line === null) return;
    stream.line.open = false;
    stream.line = null;
  }

  private style(stream: Open): void {
    const parsed = parse(stream.line!.text, stream.begin);
    stream.line!.spans = parsed.spans;
    stream.style = parsed.style;
  }

  private open(name: string): Open {
    let found = this.streams.get(name);
    if (found === undefined) {
      found = { decoder: new TextDecoder(), line: null, style: {}, begin: {} };
      this.streams.set(name, found);
    }
    return found;
  }
}

/** The frames of a body that comes in pieces. */
export async function* framesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<OutputFrame[]> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const parts = rest.split("\n");
      rest = parts.pop() ?? "";
      const frames = parts.filter((part) => part !== "").map((part) => JSON.parse(part) as OutputFrame);
      if (frames.length > 0) yield frames;
      if (done) return;
    }
  } finally {
    reader.releaseLock();
  }
}
