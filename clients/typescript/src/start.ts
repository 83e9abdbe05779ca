import { spawn } from "node:child_process";

import { HoldfastError } from "./errors.js";
import type { Request, Transport } from "./transport.js";

const NO_DAEMON = new Set(["ENOENT", "ECONNREFUSED"]);

/** A transport that starts the daemon of a state directory when nothing listens, and then sends the request again. */
export function withStart(send: Transport, stateDir: string | undefined, command: readonly string[] | undefined): Transport {
  let starting: Promise<void> | undefined; // requests at the same time share one start
  return async (request: Request) => {
    try {
      return await send(request);
    } catch (error) {
      if (!NO_DAEMON.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
    starting ??= start(stateDir, command).finally(() => (starting = undefined));
    await starting;
    return send(request);
  };
}

/** Run `holdfast serve --detach`, which starts one daemon, whoever else does the same. */
function start(stateDir: string | undefined, command: readonly string[] | undefined): Promise<void> {
  const words = command ?? process.env["HOLDFAST_COMMAND"]?.split(" ") ?? ["holdfast"];
  const [file = "holdfast", ...args] = words;
  const place = stateDir === undefined ? [] : ["--state-dir", stateDir];
  return new Promise((resolve, reject) => {
    const said: Buffer[] = [];
    const starter = spawn(file, [...args, "serve", "--detach", ...place], { stdio: ["ignore", "ignore", "pipe"] });
    starter.stderr.on("data", (piece: Buffer) => said.push(piece));
    starter.on("error", (error: NodeJS.ErrnoException) => {
      reject(new HoldfastError(`${file} cannot be started: ${error.message}; install Holdfast, or set HOLDFAST_COMMAND`, error.code));
    });
    starter.on("close", (code) => {
      if (code === 0) resolve();
      else reject(new HoldfastError(Buffer.concat(said).toString("utf8").trim() || `the daemon was not started (${code})`, "NO_DAEMON"));
    });
  });
}
