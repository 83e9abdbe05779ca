import { Readable } from "node:stream";

import type { Notifications } from "./generated/sidecar.js";

/** How many bytes may be on their way to us: enough to be fast, and a bound on the memory for a slow reader. */
export const CREDIT = 1 << 20;

class OutputStream extends Readable {
  #wants: () => void;

  constructor(wants: () => void) {
    super();
    this.#wants = wants;
  }

  override _read(): void {
    this.#wants();
  }
}

/**
 * The output of one run: collected for the result, and passed to the streams that were asked for.
 *
 * Credit goes back to the sidecar when bytes are collected, or, once a stream is there, when its reader has taken them.
 * Both streams share the credit, as they share one journal: a caller that asks for a stream has to read it.
 */
export class Output {
  readonly ended: Promise<boolean>;
  #giveCredit: (bytes: number) => void;
  #collects: boolean;
  #all: Buffer[] = [];
  #parts: Record<"stdout" | "stderr", Buffer[]> = { stdout: [], stderr: [] };
  #streams: Partial<Record<"stdout" | "stderr", OutputStream>> = {};
  #held: Record<"stdout" | "stderr", number> = { stdout: 0, stderr: 0 };
  #owed = 0;
  #end!: (complete: boolean) => void;
  #isOver = false;

  constructor(collects: boolean, giveCredit: (bytes: number) => void) {
    this.#collects = collects;
    this.#giveCredit = giveCredit;
    this.ended = new Promise((resolve) => (this.#end = resolve));
  }

  take(piece: Notifications["output"]): void {
    const data = Buffer.from(piece.data, "base64");
    if (this.#collects) {
      this.#parts[piece.stream].push(data);
      this.#all.push(data); // the same memory
    }
    const stream = this.#streams[piece.stream];
    if (stream !== undefined && !stream.destroyed && !stream.push(data)) this.#held[piece.stream] += data.length;
    else this.#owe(data.length);
  }

  end(complete: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const stream of Object.values(this.#streams)) stream.push(null);
    this.#end(complete);
  }

  fail(): void {
    this.end(false);
  }

  /** A stream of the output: first the collected part, then new output. */
  stream(name: "stdout" | "stderr"): Readable {
    const known = this.#streams[name];
    if (known !== undefined) return known;
    const stream = new OutputStream(() => {
      this.#owe(this.#held[name]);
      this.#held[name] = 0;
    });
    stream.on("close", () => {
      this.#owe(this.#held[name]);
      this.#held[name] = 0;
    });
    for (const part of this.#parts[name]) stream.push(part);
    if (this.#isOver) stream.push(null);
    this.#streams[name] = stream;
    return stream;
  }

  collected(name: "stdout" | "stderr" | "all"): Buffer {
    return Buffer.concat(name === "all" ? this.#all : this.#parts[name]);
  }

  #owe(bytes: number): void {
    this.#owed += bytes;
    if (this.#owed < CREDIT / 4 || this.#isOver) return;
    this.#giveCredit(this.#owed);
    this.#owed = 0;
  }
}
