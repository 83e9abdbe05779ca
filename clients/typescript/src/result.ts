import { constants } from "node:os";
import { getSystemErrorName } from "node:util";

import type { Cause, Report, Status } from "./generated/sidecar.js";

/** How a run ended. `status` and `cause` are the truth; the rest says it in the words of execa and child_process. */
export interface Result<Output = string> {
  runId: string;
  command: string;
  status: Status;
  cause: Cause;
  reason: string | undefined;
  /** The command's own exit code; undefined when Holdfast ended it, even if it then exited with 0. */
  exitCode: number | undefined;
  /** The signal that ended it, such as "SIGTERM". */
  signal: NodeJS.Signals | undefined;
  failed: boolean;
  timedOut: boolean;
  isCanceled: boolean;
  isTerminated: boolean;
  isForcefullyTerminated: boolean;
  isMaxBuffer: boolean;
  /** The reason why it could not be started: ENOENT, EACCES. ABORT_ERR for an aborted run. */
  code: string | undefined;
  stdout: Output;
  stderr: Output;
  /** Both streams in one, with `all: true`. */
  all: Output | undefined;
  durationMs: number | undefined;
  report: Report;
}

/** Thrown for a run that did not succeed; it has every field of the result, and the result. */
export class RunError<Output = string> extends Error {
  override readonly name: string;
  readonly result: Result<Output>;

  constructor(result: Result<Output>) {
    const what = `Command ${result.status.replace("_", " ")} (${result.cause}): ${result.reason ?? "no reason is known"}: ${result.command}`;
    const said = tailOf(result.stderr);
    super(said === "" ? what : `${what}\n\n${said}`);
    const { report, cause, ...fields } = result;
    Object.assign(this, fields);
    Object.defineProperty(this, "cause", { value: cause, enumerable: false, configurable: true, writable: true });
    Object.defineProperty(this, "report", { value: report, enumerable: false });
    this.result = result;
    this.name = result.code === "ABORT_ERR" ? "AbortError" : "RunError";
  }
}
export interface RunError<Output> extends Omit<Result<Output>, "cause"> {}

const TAIL = 4096;

/** The end of stderr, for a message: whole lines, and few enough to read. */
function tailOf(stderr: unknown): string {
  const text = (Array.isArray(stderr) ? stderr.join("\n") : String(stderr)).trimEnd();
  if (text.length <= TAIL) return text;
  const end = text.slice(-TAIL);
  return `[...]\n${end.slice(end.indexOf("\n") + 1)}`;
}

const SIGNALS = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name as NodeJS.Signals]));

/** Make the result from a report and the output. */
export function resultOf<Output>(
  report: Report,
  command: string,
  isAborted: boolean,
  { stdout, stderr, all }: Pick<Result<Output>, "stdout" | "stderr" | "all">,
): Result<Output> {
  const status = report.status ?? "lost";
  const cause = report.cause ?? "guard";
  const isOwn = cause === "exit";
  const isOurs = status === "timed_out" || status === "cancelled" || cause === "limit" || cause === "oom";
  return {
    runId: report.run_id,
    command,
    status,
    cause,
    reason: report.reason ?? undefined,
    exitCode: isOwn ? (report.exit_code ?? undefined) : undefined,
    signal: report.signal === null ? undefined : SIGNALS.get(report.signal),
    failed: status !== "succeeded",
    timedOut: status === "timed_out",
    isCanceled: status === "cancelled",
    isTerminated: isOurs || report.signal !== null,
    isForcefullyTerminated: report.escalated,
    isMaxBuffer: cause === "limit" && report.evidence?.some((fact) => fact.fact === "limit" && fact["what"] === "output") === true,
    code: codeOf(report, isAborted),
    stdout,
    stderr,
    all,
    durationMs: report.duration_s === null ? undefined : report.duration_s * 1000,
    report,
  };
}

function codeOf(report: Report, isAborted: boolean): string | undefined {
  if (report.status === "cancelled" && isAborted) return "ABORT_ERR";
  const error = report.evidence?.find((fact) => fact.fact === "spawn_failed")?.["error"];
  return report.cause === "spawn" && typeof error === "number" ? getSystemErrorName(-error) : undefined;
}
