import { Writable } from "node:stream";

import type { Sidecar } from "./sidecar.js";

const PIECE = 512 << 10; // a line of the protocol is at most 8 MiB

/** The command's stdin. A write is done when the command has taken it; if it reads no more, the rest is dropped. */
export class Input extends Writable {
  #sidecar: Sidecar;
  #runId: string;
  #isTaken = true;
  #isTerminal: boolean;
  #endsLine = true;

  constructor(sidecar: Sidecar, runId: string, isTerminal: boolean) {
    super({ decodeStrings: true });
    this.#sidecar = sidecar;
    this.#runId = runId;
    this.#isTerminal = isTerminal;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (chunk.length > 0) this.#endsLine = chunk[chunk.length - 1] === 10;
    this.#send(chunk).then(() => done(), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    // On a terminal, the first end-of-file character only ends an unfinished line. The next one ends the input.
    const before = this.#isTerminal && !this.#endsLine ? this.#send(Buffer.from([4])) : Promise.resolve();
    const call = before.then(() => this.#sidecar.call("input", { run_id: this.#runId, eof: true }));
    call.then(() => done(), () => done()); // the run is over, and its stdin with it
  }

  async #send(chunk: Buffer): Promise<void> {
    for (let from = 0; from < chunk.length && this.#isTaken; from += PIECE) {
      const data = chunk.subarray(from, from + PIECE).toString("base64");
      // Not an EPIPE: a command may end before it has read everything, and its outcome says how it ended.
      this.#isTaken = await this.#sidecar.call("input", { run_id: this.#runId, data }).then(
        (answer) => answer.accepted,
        () => false,
      );
    }
  }
}
