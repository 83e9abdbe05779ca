import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { HoldfastError, run, RunError, Sidecar } from "holdfast";

import { isAlive, readyOn, sh, withDirectory } from "./support.js";

after(() => Sidecar.shared().close());

async function failure(promise: PromiseLike<unknown>): Promise<RunError> {
  try {
    await promise;
  } catch (error) {
    assert(error instanceof RunError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "it did not fail" });
}

test("a command that succeeds", async () => {
  const result = await run(...sh("echo out; echo err >&2"));
  assert.equal(result.stdout, "out");
  assert.equal(result.stderr, "err");
  assert.deepEqual(
    [result.status, result.cause, result.exitCode, result.signal, result.failed, result.timedOut, result.isCanceled],
    ["succeeded", "exit", 0, undefined, false, false, false],
  );
  assert.equal(result.report.tree, "gone");
  assert.equal((await run("true")).exitCode, 0);
});

test("a command that fails is an exception with everything in it, or a result", async () => {
  const error = await failure(run(...sh("echo some; exit 3")));
  assert.deepEqual([error.exitCode, error.stdout, error.status, error.cause, error.failed], [3, "some", "failed", "exit", true]);
  assert.match(error.message, /failed \(exit\): exited with code 3/);
  const result = await run(...sh("exit 3"), { reject: false });
  assert.deepEqual([result.exitCode, result.failed], [3, true]);
  const killed = await run(...sh("kill -SEGV $$"), { reject: false });
  assert.deepEqual([killed.cause, killed.signal, killed.exitCode, killed.isTerminated], ["signal", "SIGSEGV", undefined, true]);
});

test("a command that is not there", async () => {
  const error = await failure(run("/nonexistent/program", ["a"]));
  assert.deepEqual([error.code, error.cause, error.exitCode], ["ENOENT", "spawn", undefined]);
  const nowhere = await failure(run("true", [], { cwd: "/nonexistent" }));
  assert.equal(nowhere.code, "ENOENT");
});

test("a timeout stays one, also when the command exits with 0 on its way out", async () => {
  const error = await failure(run(...sh("trap 'echo late; exit 0' TERM; echo early; while :; do sleep 0.05; done"), { timeout: 400 }));
  assert.deepEqual([error.timedOut, error.status, error.cause, error.isCanceled], [true, "timed_out", "deadline", false]);
  assert.equal(error.exitCode, undefined);
  assert.equal(error.result.report.exit_code, 0);
  assert.equal(error.stdout, "early"); // what came after the verdict is not part of the result
  const idle = await failure(run("sleep", ["1000"], { idleTimeout: 200 }));
  assert.deepEqual([idle.timedOut, idle.cause], [true, "idle"]);
});

test("what cannot be ended politely is killed", async () => {
  const stubborn = run(...sh("trap '' TERM; echo ready; while :; do sleep 1; done"), { timeout: 600, forceKillAfterDelay: 200 });
  const error = await failure(stubborn);
  assert.deepEqual([error.timedOut, error.isForcefullyTerminated, error.signal], [true, true, "SIGKILL"]);
});

test("the verdict comes before the end", async () => {
  const running = run(...sh("trap '' TERM; echo ready $$; while :; do sleep 1; done"), { reject: false });
  const [pid = 0] = await readyOn(running.stdout);
  await running.cancel({ reason: "enough" });
  const verdict = await running.verdict;
  assert.deepEqual([verdict.status, verdict.cause], ["cancelled", "user"]);
  assert(isAlive(pid)); // its grace is ten seconds
  running.kill("SIGKILL");
  const result = await running;
  assert.equal(result.isCanceled, true);
  assert(!isAlive(pid));
  assert.equal(running.kill(), false);
});

test("a cancel with a shorter grace", async () => {
  const running = run(...sh("trap '' TERM; echo ready $$; while :; do sleep 1; done"), { reject: false });
  await readyOn(running.stdout);
  await running.cancel(); // its grace is ten seconds
  await running.cancel({ graceMs: 200 });
  const { report } = await running;
  assert.deepEqual(
    report.evidence?.filter((fact) => fact.fact === "grace_shortened").map((fact) => fact["grace_ns"]),
    [200_000_000],
  );
});

test("an abort before the start means that nothing is started", () =>
  withDirectory(async (directory) => {
    const mark = join(directory, "mark");
    const error = await failure(run("touch", [mark], { signal: AbortSignal.abort() }));
    assert.deepEqual([error.name, error.code, error.isCanceled, error.status], ["AbortError", "ABORT_ERR", true, "cancelled"]);
    assert(!existsSync(mark));
    assert.equal((await run("true", { signal: AbortSignal.abort(), reject: false }).verdict).cause, "user");
    const controller = new AbortController();
    const aborted = run("sleep", ["1000"], { cancelSignal: controller.signal });
    controller.abort(); // before the start has its answer
    assert.equal((await failure(aborted)).code, "ABORT_ERR");
  }));

test("an abort under way", async () => {
  const controller = new AbortController();
  const running = run(...sh("echo ready; exec sleep 1000"), { signal: controller.signal });
  await readyOn(running.stdout);
  controller.abort(new Error("the user changed their mind"));
  const error = await failure(running);
  assert.deepEqual([error.isCanceled, error.code, error.stdout], [true, "ABORT_ERR", "ready"]);
  assert.match(error.reason ?? "", /changed their mind/);
});

test("directory, environment, arguments", async () => {
  assert.equal((await run("pwd", { cwd: "/" })).stdout, "/");
  assert.equal((await run("pwd")).stdout, process.cwd());
  assert.equal((await run(...sh("echo $A-$HOME"), { env: { A: "1" } })).stdout, `1-${process.env["HOME"] ?? ""}`);
  assert.equal((await run(...sh("echo $A-$HOME"), { env: { A: "1" }, extendEnv: false })).stdout, "1-");
  assert.equal((await run("printf", ["%s|", "a b", "", "'\"\n$x"])).stdout, "a b||'\"\n$x|");
});

test("a changed environment reaches a sidecar that was there before", async () => {
  await run("true");
  process.env["HOLDFAST_TEST_ADDED"] = "yes";
  assert.equal((await run(...sh("echo $HOLDFAST_TEST_ADDED"))).stdout, "yes");
  delete process.env["HOLDFAST_TEST_ADDED"];
  assert.equal((await run(...sh("echo $HOLDFAST_TEST_ADDED"))).stdout, "");
});

test("input and bytes", async () => {
  assert.equal((await run("cat", { input: "hello\n" })).stdout, "hello");
  assert.equal((await run("cat", { input: "hello\n", stripFinalNewline: false })).stdout, "hello\n");
  const bytes = Buffer.from(Array.from({ length: 3 << 20 }, (_, place) => place % 256));
  const result = await run("cat", { input: bytes, encoding: "buffer" });
  assert(result.stdout.equals(bytes));
  assert.equal((await run("cat")).stdout, ""); // without input it reads nothing, and does not wait
});

test("stdin as a stream", async () => {
  const running = run(...sh("read a; echo got $a; read b; echo got $b"), { stdin: "pipe" });
  running.stdin?.write("one\n");
  running.stdin?.end("two\n");
  assert.equal((await running).stdout, "got one\ngot two");
  const early = run("true", { stdin: "pipe" });
  await early;
  early.stdin?.end("nobody reads this");
});

test("a line of shell", async () => {
  assert.equal((await run("echo $((6 * 7)) | cat", { shell: true })).stdout, "42");
  assert.equal((await run("echo", ["$0"], { shell: "/bin/bash" })).stdout, "/bin/bash");
  assert.equal((await failure(run("echo $((6 * 7)) | cat"))).code, "ENOENT"); // without it there is no shell
});

test("both streams in one, and lines", async () => {
  const script = sh("echo one; echo two >&2; printf 'three\\r\\n\\nlast'");
  const result = await run(...script, { lines: true });
  assert.deepEqual(result.stdout, ["one", "three", "", "last"]);
  assert.deepEqual(result.stderr, ["two"]);
  assert.equal(result.all, undefined);
  const both = await run(...sh("echo one; echo two >&2"), { all: true, lines: true }); // two pipes: either may be read first
  assert.deepEqual([...(both.all ?? [])].sort(), ["one", "two"]);
  const running = run(...sh("printf 'h\\303'; printf '\\251\\r\\nend'; echo err >&2"));
  const seen: string[] = [];
  for await (const line of running.lines()) seen.push(line);
  for await (const line of running.lines("stderr")) seen.push(line);
  assert.deepEqual(seen, ["h\u00e9", "end", "err"]);
  assert.equal((await running).stderr, "err");
});

test("the message of an error ends with stderr", async () => {
  const error = await failure(run(...sh("echo lost; echo 'no such branch' >&2; exit 3")));
  assert.match(error.message, /exited with code 3[^]*\n\nno such branch$/);
  const long = await failure(run(...sh("seq 5000 >&2; exit 3"), { encoding: "buffer" }));
  assert.match(long.message, /\n\n\[\.\.\.\]\n\d{4}\n[^]*\n5000$/);
  assert(long.message.length < 5000);
});

test("a terminal has a stdin", async () => {
  const running = run(...sh("stty -echo -onlcr; echo ready; read line; echo got $line; cat; test -t 0 && echo end"), { pty: true });
  await readyOn(running.stdout);
  running.stdin?.write("one\n");
  running.stdin?.end("two");
  assert.match((await running).stdout, /got one\ntwoend$/);
  assert.equal(run("true", { pty: true, stdin: "ignore" }).stdin, null);
});

test("output as a stream, with back-pressure to the command", async () => {
  const running = run(...sh("head -c 30000000 /dev/zero; echo wrote >&2"), { buffer: false });
  let bytes = 0;
  for await (const data of running.stdout) {
    bytes += (data as Buffer).length;
    await setImmediate();
  }
  assert.equal(bytes, 30_000_000);
  const result = await running;
  assert.equal(result.stdout, ""); // it was for the stream
});

test("a reader that does not read holds the command up, and nothing in memory", async () => {
  const running = run(...sh("yes"), { buffer: false, timeout: 1000, reject: false });
  const stream = running.stdout;
  const verdict = await running.verdict; // on time all the same
  assert.equal(verdict.cause, "deadline");
  assert(stream.readableLength <= 2 << 20, String(stream.readableLength));
  stream.resume();
  assert.equal((await running).timedOut, true);
});

test("too much output", async () => {
  const error = await failure(run("yes", { maxBuffer: 100_000, stripFinalNewline: false }));
  assert.deepEqual([error.isMaxBuffer, error.cause, error.stdout.length], [true, "limit", 100_000]);
});

test("a deadline that is moved", async () => {
  const running = run(...sh("echo ready; read line; echo $line"), { stdin: "pipe", timeout: 1500, spec: { max_timeout_s: 60 } });
  await readyOn(running.stdout);
  await running.extend(30_000);
  const { report } = { report: await running.report() };
  assert.equal(report.state, "running");
  await assert.rejects(running.extend(1_000_000), (error: HoldfastError) => error.code === -32010);
  running.stdin?.end("on\n");
  assert.equal((await running).stdout, "ready\non");
});

test("many at once over one sidecar", async () => {
  const { pid } = Sidecar.shared();
  const results = await Promise.all(Array.from({ length: 60 }, (_, number) => run("echo", [String(number)])));
  assert.deepEqual(results.map(({ stdout }) => stdout), results.map((_, number) => String(number)));
  assert.equal(new Set(results.map(({ runId }) => runId)).size, 60);
  assert.equal(Sidecar.shared().pid, pid);
});

test("options that are wrong are named", async () => {
  await assert.rejects(run("true", { timeout: -5 }), (error: HoldfastError) => error.data["field"] === "timeout_s");
  await assert.rejects(run("a\0b"), (error: HoldfastError) => error.code === -32602);
});

test("a sidecar that is killed takes its runs with it, and the next run has a new one", async () => {
  const running = run(...sh("echo ready $$; exec sleep 1000"));
  const [pid = 0] = await readyOn(running.stdout);
  const before = Sidecar.shared();
  process.kill(before.pid ?? 0, "SIGKILL");
  await assert.rejects(running, (error: HoldfastError) => error.code === "SIDECAR_GONE");
  assert.equal((await run("echo", ["again"])).stdout, "again");
  assert.notEqual(Sidecar.shared().pid, before.pid);
  while (isAlive(pid)) await run("true"); // the guard ends it by itself
});

test("a sidecar that cannot be started", async () => {
  const sidecar = new Sidecar({ command: ["/nonexistent/holdfast"] });
  await assert.rejects(run("true", { sidecar }), (error: HoldfastError) => error.code === "ENOENT" && /HOLDFAST_COMMAND/.test(error.message));
});
