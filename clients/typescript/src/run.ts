import { randomBytes } from "node:crypto";
import type { Readable, Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";

import { HoldfastError } from "./errors.js";
import type { Outcome, Report } from "./generated/sidecar.js";
import { Input } from "./input.js";
import { argvOf, startParams, takesInput, type RunOptions } from "./options.js";
import { CREDIT, Output } from "./output.js";
import { resultOf, RunError, type Result } from "./result.js";
import { Sidecar } from "./sidecar.js";

type OutputOf<O extends RunOptions> = O["lines"] extends true ? string[] : O["encoding"] extends "buffer" ? Buffer : string;

/** A live run: a promise of its result, and the requests that one can send to it. */
export class Subprocess<Out = string> implements Promise<Result<Out>> {
  readonly [Symbol.toStringTag] = "Subprocess";
  readonly runId: string;
  readonly command: string;
  /** The outcome, as soon as it is decided; the tree may still be unwinding, and the promise itself waits for that. */
  readonly verdict: Promise<Outcome>;
  readonly #options: RunOptions;
  readonly #sidecar: Sidecar;
  readonly #output: Output;
  readonly #stdin: Input | null;
  readonly #result: Promise<Result<Out>>;
  #isOver = false;
  #isAborted = false;

  constructor(file: string, args: readonly string[], options: RunOptions) {
    this.#options = options;
    this.#sidecar = options.sidecar ?? Sidecar.shared();
    this.runId = options.runId ?? newRunId();
    this.command = [file, ...args].join(" ");
    this.#output = new Output(options.buffer ?? true, (bytes) => this.#sidecar.notify("credit", { run_id: this.runId, bytes }));
    const abort = options.signal ?? options.cancelSignal;
    const started = abort?.aborted === true ? Promise.reject(neverStarted(this.runId, abort)) : this.#start(argvOf(file, args, options.shell));
    this.#stdin = takesInput(options) ? new Input(this.#sidecar, this.runId, options.pty === true) : null;
    if (options.input !== undefined) this.#stdin?.end(options.input);
    this.verdict = this.#decided(started);
    this.verdict.catch(() => {});
    this.#result = this.#finished(started, abort);
  }

  /** The output as it comes; also part of the result unless `buffer` is false. Read a stream once you have taken it. */
  get stdout(): Readable {
    return this.#output.stream("stdout");
  }

  get stderr(): Readable {
    return this.#output.stream("stderr");
  }

  /** The lines of one stream as they come, without line ends. */
  async *lines(name: "stdout" | "stderr" = "stdout"): AsyncGenerator<string, void, undefined> {
    const decoder = new StringDecoder("utf8");
    let begun = "";
    for await (const data of this.#output.stream(name)) {
      const lines = (begun + decoder.write(data as Buffer)).split("\n");
      begun = lines.pop() ?? "";
      for (const line of lines) yield line.replace(/\r$/, "");
    }
    begun += decoder.end();
    if (begun !== "") yield begun;
  }

  /** The command's stdin with `stdin: "pipe"`, and the terminal's keyboard with `pty: true`; null otherwise. */
  get stdin(): Writable | null {
    return this.#stdin;
  }

  /**
   * End the run: SIGTERM begins the ladder, for the whole tree; SIGKILL goes to its end at once. Any other signal is
   * sent to the command and ends nothing by itself. Returns false if the run is over.
   */
  kill(signal: NodeJS.Signals | number = this.#options.killSignal ?? "SIGTERM"): boolean {
    if (this.#isOver) return false;
    const isLast = signal === "SIGKILL" || signal === 9;
    const isFirst = signal === "SIGTERM" || signal === 15 || signal === this.#options.killSignal;
    const asked =
      isLast || isFirst
        ? this.cancel({ now: isLast })
        : this.#sidecar.call("signal", { run_id: this.runId, signal: String(signal) });
    asked.catch(() => {}); // the run was over before the signal arrived
    return true;
  }

  /** End the run; resolves when the stop is on record. `now`: without grace. */
  async cancel(options: { reason?: string; now?: boolean; graceMs?: number } = {}): Promise<void> {
    const { graceMs, ...rest } = options;
    const grace = graceMs === undefined ? {} : { grace_s: graceMs / 1000 };
    await this.#sidecar.call("cancel", { run_id: this.runId, ...rest, ...grace });
  }

  /** Move the deadline by this many milliseconds. */
  async extend(milliseconds: number): Promise<void> {
    await this.#sidecar.call("extend", { run_id: this.runId, seconds: milliseconds / 1000 });
  }

  /** Tell the terminal its size, with `pty: true`. */
  async resize(rows: number, columns: number): Promise<void> {
    await this.#sidecar.call("resize", { run_id: this.runId, rows, columns });
  }

  /** The report as it is now. */
  report(): Promise<Report> {
    return this.#sidecar.call("report", { run_id: this.runId });
  }

  then<A = Result<Out>, B = never>(
    fulfilled?: ((value: Result<Out>) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#result.then(fulfilled, rejected);
  }

  catch<B = never>(rejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<Result<Out> | B> {
    return this.#result.catch(rejected);
  }

  finally(done?: (() => void) | null): Promise<Result<Out>> {
    return this.#result.finally(done);
  }

  async #start(argv: string[]): Promise<void> {
    const params = startParams(argv, this.#options, this.#sidecar.env);
    await this.#sidecar.call("start", { ...params, run_id: this.runId, output: { credit_bytes: CREDIT } });
  }

  async #decided(started: Promise<void>): Promise<Outcome> {
    try {
      await started;
      return await this.#sidecar.call("wait", { run_id: this.runId });
    } catch (error) {
      if (error instanceof NeverStarted) return error.report as unknown as Outcome;
      // A cancelled run, a run that never started and a lost run are errors of the call; the error has the outcome.
      if (error instanceof HoldfastError && error.data["status"] !== undefined) return error.data as unknown as Outcome;
      throw error;
    }
  }

  async #finished(started: Promise<void>, abort: AbortSignal | undefined): Promise<Result<Out>> {
    const stopListening = this.#sidecar.listen(this.runId, {
      output: (piece) => this.#output.take(piece),
      end: ({ complete }) => this.#output.end(complete),
      gone: () => this.#output.fail(),
    });
    const onAbort = (): void => {
      this.#isAborted = true;
      this.cancel({ reason: String((abort?.reason as Error | undefined)?.message ?? "aborted") }).catch(() => {});
    };
    abort?.addEventListener("abort", onAbort, { once: true });
    try {
      await started;
      const report = await this.#sidecar.call("settled", { run_id: this.runId });
      await this.#output.ended;
      return this.#give(report);
    } catch (error) {
      if (error instanceof NeverStarted) {
        this.#isAborted = true;
        return this.#give(error.report);
      }
      throw error;
    } finally {
      this.#isOver = true;
      this.#output.fail();
      abort?.removeEventListener("abort", onAbort);
      stopListening();
    }
  }

  #give(report: Report): Result<Out> {
    const given = (name: "stdout" | "stderr" | "all"): Out => this.#text(this.#output.collected(name)) as Out;
    const all = this.#options.all === true ? given("all") : undefined;
    const result = resultOf(report, this.command, this.#isAborted, { stdout: given("stdout"), stderr: given("stderr"), all });
    if (result.failed && (this.#options.reject ?? true)) throw new RunError(result);
    return result;
  }

  #text(data: Buffer): string | string[] | Buffer {
    if (this.#options.lines === true) return linesOf(data.toString("utf8"));
    if (this.#options.encoding === "buffer") return data;
    const text = data.toString("utf8");
    return (this.#options.stripFinalNewline ?? true) ? text.replace(/\r?\n$/, "") : text;
  }
}

/**
 * Run a command and give its result; RunError when it did not succeed. The promise is also the run itself:
 *
 *     const { stdout } = await run("git", ["status"], { timeout: 10_000 });
 */
export function run<O extends RunOptions>(file: string, args?: readonly string[], options?: O): Subprocess<OutputOf<O>>;
export function run<O extends RunOptions>(file: string, options?: O): Subprocess<OutputOf<O>>;
export function run(file: string, args?: readonly string[] | RunOptions, options?: RunOptions): Subprocess<never> {
  if (args === undefined || isArguments(args)) return new Subprocess(file, args ?? [], options ?? {});
  return new Subprocess(file, [], args);
}

function isArguments(value: readonly string[] | RunOptions): value is readonly string[] {
  return Array.isArray(value);
}

function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

class NeverStarted extends Error {
  constructor(readonly report: Report) {
    super("aborted before it was started");
  }
}

/** The result of a run that was aborted before anything was sent: no process was ever made, and the report says so. */
function neverStarted(runId: string, abort: AbortSignal): NeverStarted {
  const why = (abort.reason as Error | undefined)?.message;
  const nothing = { stdout_bytes: 0, stderr_bytes: 0, late_bytes: 0, dropped_bytes: 0, complete: true };
  return new NeverStarted({
    run_id: runId, state: "settled", name: null, argv: null, session: null, parent: null, labels: {},
    status: "cancelled", cause: "user", reason: `cancelled before it started${why === undefined ? "" : `: ${why}`}`,
    exit_code: null, signal: null, pid: null, host: null, ports: null, queued_at: null, started_at: null, verdict_at: null, exited_at: null,
    settled_at: null, duration_s: null, limit: null, escalated: false, containment: null, tree: "gone", survivors: [],
    stragglers: 0, output: nothing, usage: { cpu_user_s: null, cpu_system_s: null, max_rss_bytes: null }, evidence: [],
  });
}

const CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz";

/** A run id as Holdfast makes it: ten characters of milliseconds, ten random ones; ids sort by time. */
function newRunId(): string {
  const chance = BigInt(`0x${randomBytes(7).toString("hex")}`) >> 6n;
  let number = (BigInt(Date.now()) << 50n) | chance;
  let text = "";
  for (let place = 0; place < 20; place++, number >>= 5n) text = CROCKFORD[Number(number & 31n)] + text;
  return text;
}
