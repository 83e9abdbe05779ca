// The fixtures every process runner should pass, with child_process beside Holdfast: what it leaves is the control that
// shows that each fixture tests something.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { after, test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { run, Sidecar } from "holdfast";

import { isAlive, ready, readyOn, sh } from "./support.js";

after(() => Sidecar.shared().close());

const TREE = sh("sleep 1000 & echo ready $!; wait");

test("grandchild tree kill", async () => {
  const ours = run(...TREE, { timeout: 500, reject: false });
  const [grandchild = 0] = await readyOn(ours.stdout);
  const result = await ours;
  assert.deepEqual([result.timedOut, result.report.tree, isAlive(grandchild)], [true, "gone", false]);
});

test("grandchild tree kill: child_process leaves the grandchild", async () => {
  const theirs = spawn(...TREE, { timeout: 500, stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(theirs, "exit");
  const [grandchild = 0] = await readyOn(theirs.stdout);
  await exited;
  assert(isAlive(grandchild));
  process.kill(grandchild, "SIGKILL");
});

// The command is gone, and something it left holds the pipe.
const HOLDER = sh("head -c 2000000 /dev/zero; (trap '' TERM; exec sleep 1000) & echo; echo ready $!; exec sleep 1000");

test("timeout against slow output drain", async () => {
  const ours = run(...HOLDER, { timeout: 700, forceKillAfterDelay: 200, reject: false, encoding: "buffer" });
  const result = await ours;
  assert.equal(result.timedOut, true);
  const [, holder] = /ready (\d+)/.exec(result.stdout.subarray(2_000_000).toString()) ?? [];
  assert(holder !== undefined, "all that was written before the deadline is there");
  assert(!isAlive(Number(holder)));
  assert.deepEqual([result.report.output.complete, result.report.tree], [true, "gone"]);
});

test("timeout against slow output drain: child_process waits for the holder", async () => {
  const theirs = spawn(...HOLDER, { timeout: 700, stdio: ["ignore", "pipe", "inherit"] });
  let isClosed = false;
  const closed = once(theirs, "close").then(() => (isClosed = true));
  const exited = once(theirs, "exit");
  let text = "";
  theirs.stdout.on("data", (data: Buffer) => (text += data.subarray(-40).toString("latin1")));
  await exited;
  await setImmediate();
  assert(!isClosed);
  const holder = Number(/ready (\d+)/.exec(text)?.[1]);
  process.kill(holder, "SIGKILL"); // only this lets it go on
  await closed;
});

// Reads nothing, so a write that is larger than the pipe stays in flight.
const NEVER_READS = sh("sleep 1000 & echo ready $!; wait");

test("abort during an in-flight write", async () => {
  const controller = new AbortController();
  const ours = run(...NEVER_READS, { stdin: "pipe", signal: controller.signal, reject: false });
  const [grandchild = 0] = await readyOn(ours.stdout);
  let isWritten = false;
  const write = new Promise<void>((resolve) => ours.stdin?.write(Buffer.alloc(4 << 20), () => resolve(void (isWritten = true))));
  await ours.report(); // a round trip: the write is on its way
  assert(!isWritten);
  controller.abort();
  const result = await ours;
  assert.deepEqual([result.isCanceled, result.report.tree, isAlive(grandchild)], [true, "gone", false]);
  await write; // it is over, without an exception nobody would catch
});

test("abort during an in-flight write: child_process leaves a process and an error", async () => {
  const controller = new AbortController();
  const theirs = spawn(...NEVER_READS, { stdio: ["pipe", "pipe", "inherit"], signal: controller.signal });
  const errors: string[] = [];
  theirs.on("error", (error) => errors.push(error.name));
  theirs.stdin.on("error", (error: NodeJS.ErrnoException) => errors.push(String(error.code)));
  const [grandchild = 0] = await readyOn(theirs.stdout);
  theirs.stdin.write(Buffer.alloc(4 << 20));
  const exited = new Promise((resolve) => theirs.once("exit", resolve)); // `once` would throw the error
  controller.abort();
  await exited;
  assert(isAlive(grandchild));
  assert.equal(errors[0], "AbortError");
  process.kill(grandchild, "SIGKILL");
});

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  test(`signal forwarding: ${signal} to the command`, async () => {
    const number = signal === "SIGINT" ? 2 : 15;
    const script = sh(`trap 'echo got ${number}; exit 0' ${signal.slice(3)}; echo ready; while :; do sleep 0.05; done`);
    const ours = run(...script, { reject: false });
    await readyOn(ours.stdout);
    ours.kill(signal);
    const result = await ours;
    // SIGTERM is the beginning of the end; any other signal is the command's business.
    assert.equal(result.status, signal === "SIGINT" ? "succeeded" : "cancelled");
    assert.equal(result.report.exit_code, 0);
    if (signal === "SIGINT") assert.equal(result.stdout, "ready\ngot 2");
    const theirs = spawn(...script, { stdio: ["ignore", "pipe", "inherit"] });
    const exited = once(theirs, "exit");
    await readyOn(theirs.stdout);
    theirs.kill(signal);
    assert.deepEqual(await exited, [0, null]);
  });

  for (const runner of ["holdfast", "child_process"]) {
    const leaves = runner === "child_process";
    test(`${signal} to the host: ${runner} ${leaves ? "leaves the command" : "ends the command"}`, async () => {
      const program = fileURLToPath(new URL("host.js", import.meta.url));
      const host = spawn(process.execPath, [program, runner], { stdio: ["ignore", "pipe", "inherit"] });
      const exited = once(host, "exit");
      const [pid = 0] = await ready(host.stdout);
      host.kill(signal);
      assert.deepEqual(await exited, [null, signal]);
      if (leaves) {
        assert(isAlive(pid));
        process.kill(pid, "SIGKILL");
      } else {
        while (isAlive(pid)) await run("true"); // the sidecar sees its host go, and gives it its grace
      }
    });
  }
}
