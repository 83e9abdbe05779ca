import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

test("a program that is done ends, although its sidecar is still there", async () => {
  const program = fileURLToPath(new URL("short.js", import.meta.url));
  const host = spawn(process.execPath, [program], { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  host.stdout.on("data", (data: Buffer) => (said += String(data)));
  assert.deepEqual(await once(host, "close"), [0, null]);
  assert.equal(said, "done\n");
});
