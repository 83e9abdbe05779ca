// pm2 with its daemon, treekill and a kill timeout. It has no deadlines: the caller stops.
import fs from "node:fs";
import { createRequire } from "node:module";
import { ended, serve, stopped } from "./serving.mjs";

const task = JSON.parse(process.argv[2]);
process.env.PM2_HOME = `${task.directory}/pm2`;
process.env.PM2_DISABLE_VERSION_CHECK = "true";
process.env.PM2_KILL_SIGNAL = "SIGTERM"; // as everybody else here; its own would be SIGINT
process.stdout.write = () => true; // it talks to a terminal; stdout here is for answers, which are written directly
console.log = console.error = () => {};
const pm2 = createRequire(`${process.env.CONFORMANCE_NODE}/`)("pm2");

function call(name, ...values) {
  return new Promise((resolve, reject) => pm2[name](...values, (error, value) => (error ? reject(error) : resolve(value))));
}

async function describe(name) {
  const [found] = await call("describe", name);
  return found?.pm2_env;
}

// It says that a program has exited while the log is still being written.
async function written(path) {
  let size = -1;
  for (let rested = 0; rested < 3; rested += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    const now = fs.statSync(path).size;
    if (now !== size) rested = -1;
    size = now;
  }
  return size;
}

async function run(task, argv, place) {
  const name = `p${place.split("/").at(-1)}`;
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
      out_file: `${place}.stdout`,
      error_file: `${place}.stderr`,
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
    await new Promise((resolve) => setTimeout(resolve, 10));
    found = await describe(name);
  }
  found = await describe(name);
  const more = {};
  if (task.stream) {
    more.stdout_bytes = await written(`${place}.stdout`);
    fs.truncateSync(`${place}.stdout`);
  }
  return status ? stopped(status, null, null, more) : ended(found.exit_code ?? null, null, more);
}

await call("connect", false);
await serve(run, Number(fs.readFileSync(`${process.env.PM2_HOME}/pm2.pid`)));
await call("killDaemon");
process.exit(0);
