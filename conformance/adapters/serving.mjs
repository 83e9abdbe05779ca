// The frame of every adapter in JavaScript, as serving.py is for Python.
import fs from "node:fs";

export async function serve(run, supervisor = process.pid) {
  const task = JSON.parse(process.argv[2]);
  say({ supervisor });
  say({ ready: true });
  for (const [number, argv] of task.runs.entries()) {
    const place = `${task.directory}/${number}`;
    const begin = process.hrtime.bigint();
    let answer;
    try {
      answer = await run(task, argv, place);
    } catch (error) {
      answer = { status: "error", note: String(error) };
    }
    tell(answer, place, Number(process.hrtime.bigint() - begin) / 1e9);
  }
  fs.readSync(0, Buffer.alloc(1));
}

export function say(message) {
  fs.writeSync(1, JSON.stringify(message) + "\n");
}

function tell(answer, place, seconds) {
  const fields = { cause: null, exit_code: null, signal: null, stdout_bytes: null, tree: null, note: null, ...answer };
  for (const stream of ["stdout", "stderr"]) {
    const path = `${place}.${stream}`;
    if (answer[stream] && answer[stream].length) fs.writeFileSync(path, answer[stream]);
    fields[stream] = fs.existsSync(path) ? path : null;
  }
  say({ answer: { ...fields, seconds } });
}

// The answer for a command that ended by itself.
export function ended(code, signal, more) {
  if (signal) return { status: "failed", cause: "signal", signal: SIGNALS[signal] ?? null, ...more };
  return { status: code === 0 ? "succeeded" : "failed", cause: "exit", exit_code: code, ...more };
}

// The answer for a command that was ended: the status is known; the exit is detail.
export function stopped(status, code, signal, more) {
  return { ...ended(code, signal, more), status, cause: status === "timed_out" ? "deadline" : "user" };
}

// Block the event loop, as a thoughtless callback does.
export function blockLoop(task) {
  if (task.block_loop_s === null) return;
  const nobody = new Int32Array(new SharedArrayBuffer(4));
  setTimeout(() => Atomics.wait(nobody, 0, 0, task.block_loop_s * 1000), 100);
}

import os from "node:os";
const SIGNALS = os.constants.signals;
