// execa with everything it offers for the end of a command: timeout, forceKillAfterDelay, cancelSignal, cleanup.
import { createRequire } from "node:module";
import { blockLoop, ended, serve, stopped } from "./serving.mjs";

// Installed beside the repository's own files, where an import by name would not look.
const { execa } = await import(createRequire(`${process.env.CONFORMANCE_NODE}/`).resolve("execa"));

async function run(task, argv) {
  const controller = new AbortController();
  let count = 0;
  const child = execa(argv[0], argv.slice(1), {
    cwd: task.cwd ?? undefined,
    timeout: task.timeout_s * 1000,
    killSignal: "SIGTERM",
    forceKillAfterDelay: task.grace_s * 1000,
    cancelSignal: controller.signal,
    cleanup: true,
    reject: false,
    encoding: "buffer",
    stripFinalNewline: false,
    buffer: !task.stream,
    ...(task.input_bytes ? { input: Buffer.alloc(task.input_bytes) } : { stdin: "ignore" }),
  });
  if (task.stream) child.stdout.on("data", (part) => (count += part.length));
  let timer = null;
  if (task.cancel_after_s !== null) timer = setTimeout(() => controller.abort(), task.cancel_after_s * 1000);
  blockLoop(task);
  const result = await child;
  clearTimeout(timer);
  const more = { stdout: result.stdout, stderr: result.stderr, stdout_bytes: task.stream ? count : null };
  if (result.timedOut) return stopped("timed_out", result.exitCode, result.signal, more);
  if (result.isCanceled) return stopped("cancelled", result.exitCode, result.signal, more);
  if (result.exitCode === undefined && !result.signal)
    return { status: "failed", cause: result.code ? "spawn" : null, note: result.shortMessage };
  return { ...ended(result.exitCode, result.signal, more), note: result.shortMessage ?? null };
}

await serve(run);
