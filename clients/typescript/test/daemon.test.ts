import assert from "node:assert/strict";
import { test } from "node:test";

import { Daemon, DaemonError } from "holdfast";

const socketPath = process.env["HOLDFAST_TEST_SOCKET"] ?? "";
const url = process.env["HOLDFAST_TEST_URL"] ?? "";
const token = process.env["HOLDFAST_TEST_TOKEN_TEXT"] ?? "";
const ways = { "the socket": new Daemon({ socketPath }), TCP: new Daemon({ url, token }) };

async function refusal(promise: Promise<unknown>): Promise<DaemonError> {
  try {
    await promise;
  } catch (error) {
    assert(error instanceof DaemonError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "it was not refused" });
}

async function all(parts: AsyncIterable<Uint8Array>): Promise<string> {
  const found: Uint8Array[] = [];
  for await (const part of parts) found.push(part);
  return Buffer.concat(found).toString();
}

for (const [way, daemon] of Object.entries(ways)) {
  test(`a run from start to end over ${way}`, async () => {
    const posted = await daemon.submit({ argv: ["sh", "-c", "echo out; exit 3"], name: way, session: "ts" });
    const verdict = await daemon.wait(posted.run_id);
    assert.deepEqual([verdict.status, verdict.cause, verdict.exit_code], ["failed", "exit", 3]);
    const settled = await daemon.wait(posted.run_id, { until: "settled" });
    assert.equal(settled.tree, "gone");
    assert.equal(await all(daemon.output(posted.run_id)), "out\n");
    const { runs } = await daemon.list({ session: "ts" });
    assert(runs.some((run) => run.run_id === posted.run_id));
    const { evidence } = await daemon.evidence(posted.run_id);
    assert(evidence.some((fact) => fact["fact"] === "exited"));
    assert.equal((await daemon.health()).status, "ok");
    assert((await daemon.sessions()).sessions.some((session) => session.name === "ts"));
  });

  test(`input, signals and the end over ${way}`, async () => {
    const { run_id } = await daemon.submit({ argv: ["cat"], stdin: "pipe", timeout_s: 50, max_timeout_s: 100, cwd: "/" });
    await daemon.input(run_id, "one\n");
    await daemon.extend(run_id, 10);
    await daemon.input(run_id, new Uint8Array([116, 119, 111]), { eof: true });
    assert.equal(await all(daemon.output(run_id, { follow: true })), "one\ntwo");
    const sleeping = await daemon.submit({ argv: ["sleep", "1000"] });
    await daemon.cancel(sleeping.run_id, { reason: "enough" });
    const report = await daemon.wait(sleeping.run_id, { until: "settled" });
    assert.deepEqual([report.status, report.cause], ["cancelled", "user"]);
  });

  test(`refusals over ${way}`, async () => {
    assert.equal((await refusal(daemon.report("nobody"))).status, 404);
    const wrong = await refusal(daemon.submit({ argv: ["true"], timeout_s: -1 }));
    assert.equal(wrong.status, 422);
    const key = { idempotencyKey: `once-${way}` };
    const first = await daemon.submit({ argv: ["true"] }, key);
    assert.equal((await daemon.submit({ argv: ["true"] }, key)).run_id, first.run_id);
    assert.equal((await refusal(daemon.submit({ argv: ["false"] }, key))).status, 409);
  });

  test(`events over ${way}, and missed events`, async () => {
    const { run_id } = await daemon.submit({ argv: ["true"] });
    await daemon.wait(run_id, { until: "settled" });
    const seen: string[] = [];
    const ids: number[] = [];
    for await (const event of daemon.events({ after: 0, run_id })) {
      seen.push(event.type);
      ids.push(event.id ?? -1);
      if (event.type === "run.settled") break;
    }
    assert.deepEqual(seen, ["run.queued", "run.started", "run.verdict", "run.settled"]);
    const rest: string[] = [];
    for await (const event of daemon.events({ after: ids[1] ?? 0, run_id })) {
      rest.push(event.type);
      if (event.type === "run.settled") break;
    }
    assert.deepEqual(rest, ["run.verdict", "run.settled"]);
    const controller = new AbortController();
    const live = daemon.events({}, controller.signal);
    const next = live.next();
    controller.abort();
    assert.deepEqual(await next, { value: undefined, done: true });
  });
}

test("a wrong token", async () => {
  assert.equal((await refusal(new Daemon({ url, token: "wrong" }).health())).status, 401);
});
