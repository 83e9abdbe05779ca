// A harness that runs commands with the TypeScript client, told by lines of JSON what to do:
//   node harness.mjs CLIENT STATE_DIR PYTHON
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [client, stateDir, python] = process.argv.slice(2);
const { Daemon, run, Sidecar } = await import(pathToFileURL(client).href);
const sidecar = new Sidecar({ stateDir, command: [python, "-m", "holdfast.cli.main"] });
const daemon = new Daemon({ stateDir });
const runs = new Map();

const does = {
  start({ run_id: runId, argv: [file, ...args], options }) {
    runs.set(runId, run(file, args, { ...options, runId, sidecar, reject: false, keep: true }));
  },
  async cancel({ run_id }) {
    await runs.get(run_id).cancel();
  },
  // The outcome at the verdict, as `run()` gives it.
  verdict: ({ run_id }) => runs.get(run_id).verdict,
  async result({ run_id }) {
    const { status, cause, exitCode = null, timedOut, isCanceled, report } = await runs.get(run_id);
    return { status, cause, exitCode, timedOut, isCanceled, report };
  },
  // Of any run: the daemon's report, and the sidecar's answer to `wait`.
  report: ({ run_id }) => daemon.wait(run_id),
  async wait({ run_id }) {
    await sidecar.call("adopt", { run_id });
    try {
      return { result: await sidecar.call("wait", { run_id }) };
    } catch (error) {
      return { error: { code: error.code, data: error.data } };
    }
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...given } = JSON.parse(line);
  let said;
  try {
    said = { answer: (await does[name](given)) ?? null };
  } catch (error) {
    said = { failed: String(error.stack) };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
await sidecar.close();
