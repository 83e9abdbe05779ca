import { Writable } from "node:stream";

import type { Sidecar } from "./sidecar.js";

const PIECE = 512 << 10; // a line of the protocol is at most 8 MiB

/** The command's stdin. A write is done when the command has taken it; if it reads no more, the rest is dropped. */
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
