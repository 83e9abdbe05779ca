// pm2 with its daemon, treekill and a kill timeout. It has no deadlines: the caller stops.
import fs from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { ended, serve, stopped } from "./serving.mjs";

const REST_MS = 300;
const LONGEST_MS = 1000;
const outputs = new Map();
const task = JSON.parse(process.argv[2]);
process.env.PM2_HOME = `${task.directory}/pm2`;
process.env.PM2_DISABLE_VERSION_CHECK = "true";
process.env.PM2_KILL_SIGNAL = "SIGTERM"; // like the other peers here; pm2's default is SIGINT
process.stdout.write = () => true; // pm2 prints for a terminal; stdout here is for answers, which are written directly
console.log = console.error = () => {};
const pm2 = createRequire(`${process.env.CONFORMANCE_NODE}/`)("pm2");

function call(name, ...values) {
  return new Promise((resolve, reject) => pm2[name](...values, (error, value) => (error ? reject(error) : resolve(value))));
}

async function describe(name) {
  const [found] = await call("describe", name);
  return found?.pm2_env;
}

// From the bus, because pm2 closes its log files at the exit, and output on its way to them is lost. The cost
// is memory: nothing slows down a program that writes faster than the bus is read.
class Output {
  stdout = [];
  stderr = [];
  bytes = 0;
  heard = Date.now();

  constructor(stream) {
    this.stream = stream;
  }

  take(name, data) {
    this.heard = Date.now();
    if (name === "stdout") this.bytes += Buffer.byteLength(data);
    if (!this.stream) this[name].push(Buffer.from(data));
  }

  // pm2 does not say when the output is complete: it reports the exit while output still comes.
  async all(longest_ms) {
    const last = Date.now() + longest_ms;
    this.heard = Date.now();
    while (Date.now() < Math.min(last, this.heard + REST_MS)) await sleep(20);
    return { stdout: Buffer.concat(this.stdout), stderr: Buffer.concat(this.stderr), stdout_bytes: this.bytes };
  }
}

async function run(task, argv, place) {
  const name = `p${place.split("/").at(-1)}`;
  const output = new Output(task.stream);
  outputs.set(name, output);
  try {
    await call("start", {
      name,
      script: argv[0],
      args: argv.slice(1),
      cwd: task.cwd ?? undefined,
      interpreter: "none",
      autorestart: false,
      treekill: true,
      kill_timeout: task.grace_s * 1000,
      out_file: "/dev/null",
      error_file: "/dev/null",
      vizion: false,
      pmx: false,
      automation: false,
    });
  } catch (error) {
    return { status: "failed", cause: "spawn", note: String(error.message ?? error) };
  }
  const end = Date.now() + task.timeout_s * 1000;
  let status = null;
  let found = await describe(name);
  while (found.status === "online" || found.status === "launching") {
    if (Date.now() >= end) {
      status = "timed_out";
      await call("stop", name);
      break;
    }
    await sleep(10);
    found = await describe(name);
  }
  found = await describe(name);
  const more = await output.all(task.stream ? task.timeout_s * 1000 : LONGEST_MS);
  return status ? stopped(status, null, null, more) : ended(found.exit_code ?? null, null, more);
}

await call("connect", false);
const bus = await call("launchBus");
bus.on("log:out", ({ process: { name }, data }) => outputs.get(name)?.take("stdout", data));
bus.on("log:err", ({ process: { name }, data }) => outputs.get(name)?.take("stderr", data));
await serve(run, Number(fs.readFileSync(`${process.env.PM2_HOME}/pm2.pid`)));
await call("killDaemon");
process.exit(0);
