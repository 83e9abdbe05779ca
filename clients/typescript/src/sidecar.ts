import { spawn, type ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";

import { HoldfastError } from "./errors.js";
import { PROTOCOL, type Methods, type Notifications } from "./generated/sidecar.js";

export interface SidecarOptions {
  /** The `holdfast` command; default: the environment's HOLDFAST_COMMAND (split at spaces), or `holdfast`. */
  command?: readonly string[];
  /** The state directory, for runs that outlive this program or belong to a session. */
  stateDir?: string;
  /** The target of the sidecar's own warnings; default: our stderr. */
  stderr?: "inherit" | "ignore";
}

type Pending = { resolve: (value: never) => void; reject: (error: Error) => void };
type Listener = {
  output: (data: Notifications["output"]) => void;
  end: (data: Notifications["output.end"]) => void;
  gone: (error: Error) => void;
};

/**
 * One `holdfast sidecar` and the calls to it.
 *
 * The sidecar ends when our end of its stdin is closed. The kernel closes it in whatever way we end. Runs whose
 * lifetime is `owner` end with the sidecar. It is a session of its own, so a Ctrl-C at our terminal reaches only us.
 */
export class Sidecar {
  static #shared: Sidecar | undefined;

  /** The sidecar that `run()` uses; a new one when the last is gone. */
  static shared(): Sidecar {
    if (Sidecar.#shared === undefined || Sidecar.#shared.isGone) Sidecar.#shared = new Sidecar();
    return Sidecar.#shared;
  }

  /** The environment of the sidecar's start: runs inherit it. */
  readonly env: NodeJS.ProcessEnv;
  #process: ChildProcess;
  #stdin: Writable;
  #stdout: Readable;
  #pending = new Map<number, Pending>();
  #listeners = new Map<string, Listener>();
  #last = 0;
  #isClosing = false;
  #begun: Buffer[] = [];
  #goneBecause: HoldfastError | undefined;
  #ready: Promise<Methods["initialize"]["result"]>;

  constructor(options: SidecarOptions = {}) {
    const words = options.command ?? process.env["HOLDFAST_COMMAND"]?.split(" ") ?? ["holdfast"];
    const [file = "holdfast", ...args] = words;
    const place = options.stateDir === undefined ? [] : ["--state-dir", options.stateDir];
    this.env = { ...process.env };
    this.#process = spawn(file, [...args, "sidecar", ...place], {
      stdio: ["pipe", "pipe", options.stderr ?? "inherit"],
      detached: true,
      env: this.env,
    });
    this.#stdin = this.#process.stdin as Writable;
    this.#stdout = this.#process.stdout as Readable;
    this.#process.on("error", (error: NodeJS.ErrnoException) => {
      this.#lose(new HoldfastError(`${file} cannot be started: ${error.message}; install Holdfast, or set HOLDFAST_COMMAND`, error.code));
    });
    this.#process.on("exit", (code, signal) => {
      this.#lose(new HoldfastError(`the sidecar ended (${signal ?? `exit code ${code}`})`, "SIDECAR_GONE"));
    });
    this.#stdin.on("error", () => {}); // the exit reports the error
    this.#stdout.on("data", (data: Buffer) => this.#take(data));
    this.#ready = this.#send("initialize", { protocols: [PROTOCOL], client: { name: "holdfast-typescript" } });
    this.#ready.catch(() => {});
  }

  get isGone(): boolean {
    return this.#goneBecause !== undefined;
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** The answer of the handshake. */
  get hello(): Promise<Methods["initialize"]["result"]> {
    return this.#ready;
  }

  /** Call a method. HoldfastError if the sidecar refuses or is gone. The sidecar takes calls in order. */
  call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    return this.#send(method, params);
  }

  /** Send a notification, which has no answer. */
  notify<M extends keyof Methods>(method: M, params: Methods[M]["params"]): void {
    if (!this.isGone) this.#write({ jsonrpc: "2.0", method, params });
  }

  /** Receive the output of a run from now on; returns a function that stops it. */
  listen(runId: string, listener: Listener): () => void {
    this.#listeners.set(runId, listener);
    this.#keepAlive();
    return () => {
      this.#listeners.delete(runId);
      this.#keepAlive();
    };
  }

  /** End all our runs and the sidecar. */
  async close(): Promise<void> {
    if (this.isGone) return;
    this.#isClosing = true;
    const exited = new Promise<void>((resolve) => this.#process.once("exit", () => resolve()));
    await this.#send("shutdown", {}).catch(() => {});
    this.#stdin.end();
    await exited;
  }

  #send<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    if (this.#goneBecause !== undefined) return Promise.reject(this.#goneBecause);
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#keepAlive();
      this.#write({ jsonrpc: "2.0", id, method, params });
    });
  }

  #write(message: object): void {
    this.#stdin.write(JSON.stringify(message) + "\n");
  }

  #take(data: Buffer): void {
    let from = 0;
    for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10, from)) {
      this.#begun.push(data.subarray(from, end));
      const line = Buffer.concat(this.#begun).toString("utf8");
      this.#begun = [];
      from = end + 1;
      this.#hear(JSON.parse(line));
    }
    if (from < data.length) this.#begun.push(data.subarray(from));
  }

  #hear(message: { id?: number; method?: string; params?: { run_id: string }; result?: never; error?: RpcError }): void {
    if (message.method !== undefined && message.params !== undefined) {
      const listener = this.#listeners.get(message.params.run_id);
      if (message.method === "output") listener?.output(message.params as Notifications["output"]);
      else if (message.method === "output.end") listener?.end(message.params as Notifications["output.end"]);
      return;
    }
    const pending = this.#pending.get(message.id ?? -1);
    if (pending === undefined) return;
    this.#pending.delete(message.id ?? -1);
    this.#keepAlive();
    if (message.error === undefined) pending.resolve(message.result as never);
    else pending.reject(new HoldfastError(message.error.message, message.error.code, message.error.data));
  }

  #lose(error: HoldfastError): void {
    if (this.#goneBecause !== undefined) return;
    this.#goneBecause = error;
    for (const { reject } of this.#pending.values()) reject(error);
    for (const { gone } of this.#listeners.values()) gone(error);
    this.#pending.clear();
    this.#listeners.clear();
  }

  /** Let the program end while no call is under way, although the sidecar still runs. */
  #keepAlive(): void {
    const isWanted = this.#isClosing || this.#pending.size + this.#listeners.size > 0;
    const verb = isWanted ? "ref" : "unref";
    for (const handle of [this.#process, this.#stdin, this.#stdout]) (handle as unknown as Handle)[verb]?.();
  }
}

type Handle = { ref?: () => void; unref?: () => void };
type RpcError = { code: number; message: string; data?: Record<string, unknown> };
