// One function through which a harness runs its tools, with the runner behind a flag: HARNESS_RUNNER=holdfast turns
// the new one on, anything else keeps the old one. Nothing else in the harness changes.
import { spawn } from "node:child_process";

import { run } from "holdfast";

export interface ToolResult {
  outcome: "ok" | "failed" | "timeout";
  output: string;
}

type Exec = (file: string, args: string[], timeoutMs: number) => Promise<ToolResult>;

/** The old runner: the timeout ends the command, but no process that it has started. */
const execWithChildProcess: Exec = (file, args, timeoutMs) =>
  new Promise((resolve, reject) => {
    const child = spawn(file, args, { timeout: timeoutMs, stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.on("data", (data: Buffer) => (output += String(data)));
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      resolve({ outcome: code === 0 ? "ok" : signal === "SIGTERM" ? "timeout" : "failed", output });
    });
  });

/** The new runner, with Holdfast: the same shape, the whole tree, all output, and a true outcome. */
const execWithHoldfast: Exec = async (file, args, timeoutMs) => {
  const result = await run(file, args, { timeout: timeoutMs, reject: false, stripFinalNewline: false });
  return { outcome: result.timedOut ? "timeout" : result.failed ? "failed" : "ok", output: result.stdout };
};

export const exec: Exec = process.env["HARNESS_RUNNER"] === "holdfast" ? execWithHoldfast : execWithChildProcess;
