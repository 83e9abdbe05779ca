// Numbers and foreign text for people.

/** Characters that must not reach a page unescaped: control characters, and characters that turn the text direction. */
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Text of a name, label or reason, with everything unprintable made visible. */
export function plain(text: string): string {
  return text.replace(UNPRINTABLE, (one) => {
    const code = one.charCodeAt(0);
    if (one === "\n") return "⏎";
    if (one === "\t") return "⇥";
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** `250ms`, `1.5s`, `10m`, `2h 5m`: in the form of the command line, two units at most. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0) return "0s";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)}ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1).replace(/\.0$/, "")}s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor((whole % 86400) / 3600), "h"],
    [Math.floor((whole % 3600) / 60), "m"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count}${unit}`)
    .join(" ");
}

export function size(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "–";
  let value = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024 || unit === "GiB") return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
  return "";
}

export function rate(bytes: number | null | undefined): string {
  return bytes === null || bytes === undefined ? "–" : bytes === 0 ? "0" : `${size(bytes)}/s`;
}

export function clock(text: string | null): string {
  if (text === null) return "–";
  const at = new Date(text);
  const today = at.toDateString() === new Date().toDateString();
  return today ? at.toLocaleTimeString() : at.toLocaleString();
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** One word for a shell, as a user types it; control characters are visible. */
export function quote(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (!/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  const inner = word
    .replace(/[\\']/g, "\\$&")
    .replace(/[\u0000-\u001f\u007f]/g, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`)
    .replace(/[\u0080-\u009f\u2028-\u202e\u2066-\u2069]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return `$'${inner}'`;
}
