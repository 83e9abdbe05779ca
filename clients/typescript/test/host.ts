// A host that can be killed: starts a command with the runner it is told, says its number, and waits.
import { spawn } from "node:child_process";

import { run } from "holdfast";

import { readyOn, sh } from "./support.js";

const command = sh("echo ready $$; exec sleep 1000");
const stdout = process.argv[2] === "holdfast" ? run(...command).stdout : spawn(...command, { stdio: ["ignore", "pipe", "ignore"] }).stdout;
const [pid] = await readyOn(stdout);
process.stdout.write(`ready ${pid}\n`);
