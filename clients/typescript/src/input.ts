import { Writable } from "node:stream";

import type { Sidecar } from "./sidecar.js";

const PIECE = 512 << 10; // a line of the protocol is at most 8 MiB

/** The command's stdin. A write is done when the command has taken it; when it reads no more, the rest goes nowhere. */
export class Input extends Writable {
  #sidecar: Sidecar;
  #runId: string;
  #isTaken = true;

  constructor(sidecar: Sidecar, runId: string) {
    super({ decodeStrings: true });
    this.#sidecar = sidecar;
    this.#runId = runId;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#send(chunk).then(() => done(), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    const call = this.#sidecar.call("input", { run_id: this.#runId, eof: true });
    call.then(() => done(), () => done()); // it is over, and with it its stdin
  }

  async #send(chunk: Buffer): Promise<void> {
    for (let from = 0; from < chunk.length && this.#isTaken; from += PIECE) {
      const data = chunk.subarray(from, from + PIECE).toString("base64");
      // Not an EPIPE: a command that ends before it has read everything is nothing unusual, and its outcome says how.
      this.#isTaken = await this.#sidecar.call("input", { run_id: this.#runId, data }).then(
        (answer) => answer.accepted,
        () => false,
      );
    }
  }
}
