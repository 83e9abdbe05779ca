import assert from "node:assert/strict";
import { test } from "node:test";

import { Daemon, HoldfastError } from "holdfast";

test("without start there is no daemon", async () => {
  await assert.rejects(new Daemon().health(), { code: "ENOENT" });
});

test("a daemon is started once, and serves both", async () => {
  const clients = [new Daemon({ start: true }), new Daemon({ start: true })];
  const posted = await Promise.all(clients.map((daemon) => daemon.submit({ argv: ["true"] })));
  for (const { run_id } of posted) {
    const report = await new Daemon().wait(run_id);
    assert.equal(report.status, "succeeded");
  }
});

test("a daemon that is not started says why", async () => {
  const daemon = new Daemon({ start: true, stateDir: "/dev/null/state" });
  await assert.rejects(daemon.health(), (error) => error instanceof Error && /state/.test(error.message));
  assert.throws(() => new Daemon({ start: true, url: "http://127.0.0.1:1" }), HoldfastError);
});
