// A tool that starts a server in the background, and hangs. All its processes must be gone when its time is up.
import { exec } from "./exec.js";

const { outcome, output } = await exec("sh", ["-c", "sleep 1000 >/dev/null 2>&1 & echo $!; wait"], 500);
const pid = Number(output);
let isLeft = true;
try {
  process.kill(pid, 0);
} catch {
  isLeft = false;
}
console.log(`${outcome}; process ${pid} ${isLeft ? "is left" : "is gone"}`);
