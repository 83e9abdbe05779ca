// Does its work and ends, as programs do: nothing here closes the sidecar.
import { run } from "holdfast";

process.stdout.write(`${(await run("echo", ["done"])).stdout}\n`);
