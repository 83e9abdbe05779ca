import type { Methods } from "./generated/sidecar.js";
import type { Sidecar } from "./sidecar.js";

type StartParams = Methods["start"]["params"];

/** The options of `run`: the names of execa and child_process where they have one. Times are milliseconds. */
export interface RunOptions {
  cwd?: string | undefined;
  /** Variables on top of our own environment, or instead of it with `extendEnv: false`. */
  env?: Record<string, string | undefined> | undefined;
  extendEnv?: boolean | undefined;
  /** The command is a line for `/bin/sh`, or for the shell that is named. Arguments are joined with spaces. */
  shell?: boolean | string | undefined;
  /** The input of the command; without it, without `stdin: "pipe"` and without `pty`, the command reads nothing. */
  input?: string | Uint8Array | undefined;
  stdin?: "ignore" | "pipe" | undefined;
  timeout?: number | undefined;
  /** The first signal (default SIGTERM), and the time until SIGKILL (default 10000). */
  killSignal?: NodeJS.Signals | undefined;
  forceKillAfterDelay?: number | undefined;
  /** Aborts the run, which then ends as cancelled. */
  signal?: AbortSignal | undefined;
  cancelSignal?: AbortSignal | undefined;
  /** "buffer": `stdout` and `stderr` of the result are Buffers. */
  encoding?: "utf8" | "buffer" | undefined;
  /** The result has `all`: both streams in one, in the order in which they were read. */
  all?: boolean | undefined;
  /** `stdout`, `stderr` and `all` of the result are arrays of lines, without line ends. */
  lines?: boolean | undefined;
  /** False: the result has no output; only the streams have it. */
  buffer?: boolean | undefined;
  /** More output than this ends the run with cause `limit` (default 100 MB while it is buffered). */
  maxBuffer?: number | undefined;
  stripFinalNewline?: boolean | undefined;
  /** False: a run that did not succeed is a result, not an exception. */
  reject?: boolean | undefined;
  /** Options that execa and child_process do not have. */
  idleTimeout?: number | undefined;
  warnBefore?: number | undefined;
  stragglers?: "kill" | "wait" | "leave" | undefined;
  memoryBytes?: number | undefined;
  pids?: number | undefined;
  /** Milliseconds of CPU time of the whole tree. */
  cpuTime?: number | undefined;
  pty?: boolean | undefined;
  merge?: boolean | undefined;
  name?: string | undefined;
  labels?: Record<string, string> | undefined;
  session?: string | undefined;
  lifetime?: "owner" | "session" | "detached" | undefined;
  keep?: boolean | undefined;
  runId?: string | undefined;
  /** Any other parameter of the sidecar's `start`, in its own names. */
  spec?: Partial<StartParams> | undefined;
  sidecar?: Sidecar | undefined;
}

const MAX_BUFFER = 100_000_000;

/** Translate these options into the parameters of `start`. */
export function startParams(argv: string[], options: RunOptions, env: NodeJS.ProcessEnv): StartParams {
  const buffers = options.buffer ?? true;
  return defined({
    argv,
    cwd: options.cwd ?? process.cwd(),
    ...environment(options, env),
    stdin: options.pty !== true && takesInput(options) ? "pipe" : undefined, // a terminal is a stdin by itself
    timeout_s: seconds(options.timeout),
    idle_timeout_s: seconds(options.idleTimeout),
    warn_before_s: seconds(options.warnBefore),
    ladder: ladder(options),
    grace_s: options.killSignal === undefined ? seconds(options.forceKillAfterDelay) : undefined,
    stragglers: options.stragglers,
    memory_bytes: options.memoryBytes,
    pids: options.pids,
    cpu_time_s: seconds(options.cpuTime),
    max_output_bytes: options.maxBuffer ?? (buffers ? MAX_BUFFER : undefined),
    pty: options.pty,
    merge: options.merge,
    name: options.name,
    labels: options.labels,
    session: options.session,
    lifetime: options.lifetime,
    keep: options.keep,
    ...options.spec,
  }) as unknown as StartParams;
}

/** Whether the run has a stdin to write to. */
export function takesInput(options: RunOptions): boolean {
  return options.input !== undefined || options.stdin === "pipe" || (options.pty === true && options.stdin !== "ignore");
}

/** The words to execute: the command itself, or a shell with the command as its line. */
export function argvOf(file: string, args: readonly string[], shell: boolean | string | undefined): string[] {
  if (shell === undefined || shell === false) return [file, ...args];
  return [shell === true ? "/bin/sh" : shell, "-c", [file, ...args].join(" ")];
}

function defined(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

function seconds(milliseconds: number | undefined): number | undefined {
  // Zero means "no timeout" in Node, and "no time at all" in Holdfast.
  return milliseconds === undefined || milliseconds === 0 ? undefined : milliseconds / 1000;
}

function ladder(options: RunOptions): string | undefined {
  if (options.killSignal === undefined) return undefined;
  return options.killSignal === "SIGKILL" ? "KILL" : `${options.killSignal}:${options.forceKillAfterDelay ?? 10_000}ms,KILL`;
}

/** The changes of the environment since the start of the sidecar, and the requested variables. */
function environment(options: RunOptions, sidecarEnv: NodeJS.ProcessEnv): Partial<StartParams> {
  const extend = options.extendEnv ?? true;
  const base = extend ? process.env : {};
  const wanted = { ...base, ...options.env };
  const env: Record<string, string> = {};
  const drop = extend ? [] : ["*"];
  for (const [name, value] of Object.entries(wanted)) {
    const isAsked = options.env !== undefined && Object.hasOwn(options.env, name);
    if (value !== undefined && (isAsked || !extend || sidecarEnv[name] !== value)) env[name] = value;
  }
  if (extend) drop.push(...Object.keys(sidecarEnv).filter((name) => wanted[name] === undefined && !/[=?[*]/.test(name)));
  return { ...(Object.keys(env).length > 0 && { env }), ...(drop.length > 0 && { env_drop: drop }) };
}
