import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { HoldfastError } from "./errors.js";
import { EventParser } from "./events.js";
import type { Operations, Problem, Report, Submission } from "./generated/daemon.js";
import { withStart } from "./start.js";
import { overSocket, overTcp, text, type Answer, type Transport } from "./transport.js";

export interface DaemonOptions {
  /** The daemon's Unix socket; default: `holdfast.sock` in the state directory. */
  socketPath?: string;
  stateDir?: string;
  /** Or its TCP address, such as http://127.0.0.1:7433, with the token from STATE/token. */
  url?: string;
  token?: string;
  /** Start the daemon of the state directory when there is none; not with `url` or `socketPath`. */
  start?: boolean;
  /** The `holdfast` command for that; default: the environment's HOLDFAST_COMMAND (split at spaces), or `holdfast`. */
  command?: readonly string[];
}

/** The daemon refused: `status` is the HTTP status, `problem` its words, `retryAfter` a delay in seconds, if given. */
export class DaemonError extends HoldfastError {
  override readonly name = "DaemonError";

  constructor(
    readonly status: number,
    readonly problem: Problem,
    readonly retryAfter: number | undefined,
  ) {
    super(problem.detail ?? problem.title, status, problem as unknown as Record<string, unknown>);
  }
}

/** An event of the daemon. `id` is undefined for events that are not stored, such as `run.output`. */
export interface DaemonEvent {
  id: number | undefined;
  type: string;
  data: Record<string, unknown>;
}

type Query<Name extends keyof Operations> = Operations[Name]["query"];
type EventQuery = { after?: number; run_id?: string; session?: string; types?: string[]; output?: boolean; late?: boolean };

const LONGEST_WAIT_S = 60;
const RECONNECT_MS = 1000;

/** A client of `holdfast serve`. It throws DaemonError, or the errors of the connection. */
export class Daemon {
  readonly #send: Transport;

  constructor(options: DaemonOptions = {}) {
    if (options.start === true && (options.url ?? options.socketPath) !== undefined) {
      throw new HoldfastError("only the daemon of a state directory can be started: leave url and socketPath out", "INVALID");
    }
    const socketPath = options.socketPath ?? join(options.stateDir ?? defaultStateDir(), "holdfast.sock");
    if (options.url !== undefined) this.#send = overTcp(options.url, options.token ?? "");
    else if (options.start === true) this.#send = withStart(overSocket(socketPath), options.stateDir, options.command);
    else this.#send = overSocket(socketPath);
  }

  /** Post a run; the same key with the same run gives the first run again. */
  submit(run: Submission, options: { idempotencyKey?: string } = {}): Promise<Report> {
    const headers = options.idempotencyKey === undefined ? {} : { "idempotency-key": options.idempotencyKey };
    return this.#json("POST", "/v1/runs", { body: run, headers });
  }

  /** A page of runs, newest first; give its `cursor` to get the next. */
  list(query: Query<"getRuns"> = {}): Promise<Operations["getRuns"]["answer"]> {
    return this.#json("GET", `/v1/runs${search(query)}`);
  }

  report(runId: string): Promise<Report> {
    return this.#json("GET", run(runId));
  }

  /** Wait for the verdict, or until the run is settled, as long as that takes. */
  async wait(runId: string, options: { until?: "verdict" | "settled"; signal?: AbortSignal } = {}): Promise<Report> {
    const until = options.until ?? "verdict";
    for (;;) {
      const path = `${run(runId, "wait")}${search({ until, timeout_s: LONGEST_WAIT_S })}`;
      const report = await this.#json<Report>("GET", path, { signal: options.signal });
      if (until === "verdict" ? report.status !== null : report.state === "settled") return report;
    }
  }

  evidence(runId: string): Promise<Operations["getRunEvidence"]["answer"]> {
    return this.#json("GET", run(runId, "evidence"));
  }

  cancel(runId: string, options: Operations["postRunCancel"]["body"] = {}): Promise<Report> {
    return this.#json("POST", run(runId, "cancel"), { body: options });
  }

  extend(runId: string, seconds: number): Promise<Report> {
    return this.#json("POST", run(runId, "extend"), { body: { seconds } });
  }

  signal(runId: string, signal: string | number, options: { tree?: boolean } = {}): Promise<Report> {
    return this.#json("POST", run(runId, "signal"), { body: { signal, ...options } });
  }

  resize(runId: string, rows: number, columns: number): Promise<Report> {
    return this.#json("POST", run(runId, "resize"), { body: { rows, columns } });
  }

  input(runId: string, data: string | Uint8Array, options: { eof?: boolean } = {}): Promise<Report> {
    const bytes = Buffer.from(data as Uint8Array).toString("base64");
    return this.#json("POST", run(runId, "input"), { body: { data: bytes, ...options } });
  }

  /** The output of the run, from `offset` on; with `follow` as it comes, until its end. */
  async *output(runId: string, query: Query<"getRunOutput"> = {}, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const headers = { accept: "application/octet-stream" };
    const answer = await this.#send({ method: "GET", path: `${run(runId, "output")}${search(query)}`, headers, signal });
    await check(answer);
    yield* answer.body;
  }

  sessions(): Promise<Operations["getSessions"]["answer"]> {
    return this.#json("GET", "/v1/sessions");
  }

  /** Let a closed session take runs again. */
  openSession(name: string): Promise<Operations["postSessionOpen"]["answer"]> {
    return this.#json("POST", `/v1/sessions/${encodeURIComponent(name)}/open`);
  }

  /** Close a session: end its runs and refuse later ones, until it is opened again. */
  closeSession(name: string, query: Query<"deleteSession"> = {}): Promise<Operations["deleteSession"]["answer"]> {
    return this.#json("DELETE", `/v1/sessions/${encodeURIComponent(name)}${search(query)}`);
  }

  health(): Promise<Operations["getHealth"]["answer"]> {
    return this.#json("GET", "/v1/health");
  }

  doctor(): Promise<Operations["getDoctor"]["answer"]> {
    return this.#json("GET", "/v1/doctor");
  }

  /**
   * Events as they come. After a broken connection or a restart of the daemon the stream goes on after the last
   * stored event, until `signal` is aborted. A `resync` event says that events are missing: look at the runs again.
   */
  async *events(query: EventQuery = {}, signal?: AbortSignal): AsyncGenerator<DaemonEvent> {
    const { types, after, ...rest } = query;
    const path = `/v1/events${search({ ...rest, types: types?.join(",") })}`;
    let last = after;
    const isOver = (): boolean => signal?.aborted === true;
    while (!isOver()) {
      try {
        const headers = { accept: "text/event-stream", ...(last !== undefined && { "last-event-id": String(last) }) };
        const answer = await this.#send({ method: "GET", path, headers, signal });
        await check(answer);
        const parser = new EventParser();
        for await (const bytes of answer.body) {
          for (const event of parser.feed(bytes)) {
            const id = event.id === undefined ? undefined : Number(event.id);
            last = id ?? last;
            yield { id, type: event.type, data: JSON.parse(event.data) as Record<string, unknown> };
          }
          if (parser.lastId !== undefined) last = Number(parser.lastId);
        }
      } catch (error) {
        if (isOver()) return;
        if (error instanceof DaemonError && error.status < 500) throw error;
      }
      await delay(RECONNECT_MS, undefined, signal === undefined ? {} : { signal }).catch(() => {});
    }
  }

  async #json<T>(
    method: string,
    path: string,
    options: { body?: unknown; headers?: Record<string, string>; signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    const headers: Record<string, string> = { accept: "application/json", ...options.headers };
    if (options.body !== undefined) headers["content-type"] = "application/json";
    const body = options.body === undefined ? undefined : JSON.stringify(options.body);
    const answer = await this.#send({ method, path, headers, body, signal: options.signal });
    await check(answer);
    return JSON.parse(await text(answer)) as T;
  }
}

async function check(answer: Answer): Promise<void> {
  if (answer.status < 400) return;
  const said = await text(answer);
  let problem: Problem = { type: "about:blank", title: said.slice(0, 200), status: answer.status };
  try {
    problem = JSON.parse(said) as Problem;
  } catch {
    // not an answer of the daemon: a proxy in between
  }
  const retryAfter = Number(answer.headers["retry-after"]);
  throw new DaemonError(answer.status, problem, Number.isFinite(retryAfter) ? retryAfter : undefined);
}

function run(runId: string, part?: string): string {
  return `/v1/runs/${encodeURIComponent(runId)}${part === undefined ? "" : `/${part}`}`;
}

function search(query: object): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== undefined) parameters.append(name, String(one));
  }
  const found = parameters.toString();
  return found === "" ? "" : `?${found}`;
}

function defaultStateDir(): string {
  const named = process.env["HOLDFAST_STATE_DIR"];
  return named ?? join(process.env["XDG_STATE_HOME"] ?? join(homedir(), ".local", "state"), "holdfast");
}
