export { Daemon, DaemonError, type DaemonEvent, type DaemonOptions } from "./daemon.js";
export { HoldfastError } from "./errors.js";
export type * as protocol from "./generated/sidecar.js";
export type * as http from "./generated/daemon.js";
export type { RunOptions } from "./options.js";
export { RunError, type Result } from "./result.js";
export { run, Subprocess } from "./run.js";
export { Sidecar, type SidecarOptions } from "./sidecar.js";
