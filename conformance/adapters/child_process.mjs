// Node's child_process: detached, so that the whole group can be signalled; SIGTERM at the timeout, then SIGKILL.
import { spawn } from "node:child_process";
import { blockLoop, ended, serve, stopped } from "./serving.mjs";

function run(task, argv) {
  return new Promise((resolve) => {
    const given = task.input_bytes ? "pipe" : "ignore";
    const child = spawn(argv[0], argv.slice(1), {
      cwd: task.cwd ?? undefined,
      stdio: [given, "pipe", "pipe"],
      detached: true,
    });
    let status = null;
    let count = 0;
    const out = [];
    const err = [];
    const timers = [];
    const later = (seconds, act) => timers.push(setTimeout(act, seconds * 1000));
    const end = (why) => {
      if (status) return;
      status = why;
      signalGroup(child.pid, "SIGTERM");
      later(task.grace_s, () => {
        signalGroup(child.pid, "SIGKILL");
        child.stdout.destroy(); // do not wait for a process that still holds them
        child.stderr.destroy();
      });
    };
    child.stdout.on("data", (part) => {
      count += part.length;
      if (!task.stream) out.push(part);
    });
    child.stderr.on("data", (part) => err.push(part));
    if (given === "pipe") {
      child.stdin.on("error", () => {}); // the command did not read it
      child.stdin.end(Buffer.alloc(task.input_bytes));
    }
    child.on("error", (error) => {
      timers.forEach(clearTimeout);
      if (child.pid === undefined) resolve({ status: "failed", cause: "spawn", note: String(error) });
    });
    child.on("exit", () => {
      if (!status) signalGroup(child.pid, "SIGKILL"); // processes that the command left in its group
    });
    child.on("close", (code, signal) => {
      timers.forEach(clearTimeout);
      signalGroup(child.pid, "SIGKILL");
      const more = { stdout: Buffer.concat(out), stderr: Buffer.concat(err), stdout_bytes: count };
      resolve(status ? stopped(status, code, signal, more) : ended(code, signal, more));
    });
    later(task.timeout_s, () => end("timed_out"));
    if (task.cancel_after_s !== null) later(task.cancel_after_s, () => end("cancelled"));
    blockLoop(task);
  });
}

function signalGroup(leader, signal) {
  try {
    process.kill(-leader, signal);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

await serve(run);
