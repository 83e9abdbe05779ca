// The state of all runs, and the connection that keeps it current. No polling: a list once, then two streams.
//
// One stream brings events (stored by the daemon: after a break it replays them from the last id), the other numbers
// of the live runs, once a second; when it is silent, the daemon is gone. A report never goes back: the newer report
// stays. The store closes the streams while the tab is hidden: browsers have few connections per host.
import { signal } from "@preact/signals";
import { ask, login, ProblemError, query } from "./api.ts";
import type { Health, LiveUsage, Report, RunNow, RunPage, Statistics } from "./types.ts";

export type Run = Omit<Report, "evidence">;
export type Connection =
  | { state: "connecting" }
  | { state: "open" }
  | { state: "gone"; since: number; tryAt: number; was: string }
  | { state: "login" };
export type Drain = { policy: string; endsAt: number; budgetS: number; busy: string[]; queued: number };

const MOST = 10_000;
const ROOM = 500; // forgotten together, not one by one
const ORDER = { queued: 0, starting: 1, running: 2, stopping: 3, settled: 4 };
const SILENT_MS = 8_000;
const TYPES = "run.queued,run.started,run.verdict,run.settled,service.shutdown";

export const connection = signal<Connection>({ state: "connecting" });
export const runs = new Map<string, Run>();
export const numbers = new Map<string, RunNow>();
/** Changes when `runs` or `numbers` did, at most a few times a second. */
export const changed = signal(0);
export const now = signal(Date.now());
export const drain = signal<Drain | null>(null);
export const failedToday = signal<number | null>(null);
export const loading = signal(true);
export const more = signal(false);
export const daemon = signal<Health | null>(null);
/** Called for each event of one run: the page of that run loads it again. */
export const touched = signal<{ runId: string; type: string; count: number }>({ runId: "", type: "", count: 0 });

let events: EventSource | null = null;
let looks: EventSource | null = null;
let lastId: string | null = null;
let lastHeard = 0;
let skewMs = 0;
let failures = 0;
let attempts = 0;
let timer: number | undefined;
let scheduled = false;
let day: number | null = null; // when the day began whose failures are counted

/** Milliseconds since the epoch by the daemon's clock, at the last tick: reading it draws a component again. */
export function daemonNow(): number {
  return now.value + skewMs;
}

/** The daemon's clock, exactly. */
export function daemonTime(): number {
  return Date.now() + skewMs;
}

function announce(): void {
  if (scheduled) return;
  scheduled = true;
  setTimeout(
    () => {
      scheduled = false;
      changed.value++;
    },
    runs.size > 2000 ? 250 : 50,
  );
}

function put(report: Report): void {
  const known = runs.get(report.run_id);
  if (known !== undefined && ORDER[known.state ?? "settled"] > ORDER[report.state ?? "settled"]) return;
  const { evidence: _, ...rest } = report;
  runs.set(report.run_id, rest);
  if (runs.size > MOST + ROOM) forgetOldest();
  announce();
}

/** A page may be open for weeks. */
function forgetOldest(): void {
  const ended = [...runs.values()].filter((run) => run.state === "settled");
  ended.sort((a, b) => ((a.settled_at ?? "") < (b.settled_at ?? "") ? -1 : 1));
  for (const run of ended.slice(0, runs.size - MOST)) runs.delete(run.run_id);
  more.value = true;
}

export function take(report: Report): void {
  put(report);
}

export async function connect(): Promise<void> {
  clearTimeout(timer);
  disconnect();
  const mine = ++attempts; // a later attempt supersedes this one
  if (document.hidden && connection.value.state === "open") return;
  try {
    if (!(await login())) {
      connection.value = { state: "login" };
      return;
    }
    daemon.value = await ask<Health>("GET", "/v1/health");
  } catch (error) {
    if (mine === attempts) lost(error instanceof ProblemError ? error.message : String(error));
    return;
  }
  if (mine === attempts) listen();
}

function listen(): void {
  const isFirst = lastId === null;
  const source = new EventSource(`/v1/events${query({ types: TYPES, after: lastId ?? undefined })}`);
  events = source;
  source.onopen = () => {
    failures = 0;
    connection.value = { state: "open" };
    if (drain.value !== null && daemon.value?.status !== "draining") drain.value = null;
    if (isFirst) void load();
    else void loadLive();
    if (daemon.value?.status === "draining") void findDrain();
  };
  source.onerror = () => {
    if (events === source) lost("the stream of events ended");
  };
  for (const type of TYPES.split(",")) {
    source.addEventListener(type, (event) => heard(type, event as MessageEvent<string>));
  }
  source.addEventListener("resync", () => void load());
  watch();
}

function watch(): void {
  const source = new EventSource("/v1/processes");
  looks = source;
  lastHeard = Date.now();
  source.addEventListener("processes", (event) => {
    lastHeard = Date.now();
    took(JSON.parse((event as MessageEvent<string>).data) as LiveUsage);
  });
  source.onerror = () => {
    if (looks === source && connection.value.state === "open") lost("the stream of numbers ended");
  };
}

function took(look: LiveUsage): void {
  skewMs = Date.parse(look.at) - Date.now();
  const seen = new Set(look.runs.map((one) => one.run_id));
  for (const runId of numbers.keys()) {
    if (seen.has(runId)) continue;
    numbers.delete(runId);
    // Runs with another owner have no events: when their numbers end, load their reports.
    const known = runs.get(runId);
    if (known !== undefined && known.state !== "settled") void refresh(runId);
  }
  for (const one of look.runs) {
    numbers.set(one.run_id, one);
    const known = runs.get(one.run_id);
    if (known === undefined) {
      if (!loading.value && one.state !== "settled") void refresh(one.run_id);
    } else if (ORDER[one.state as keyof typeof ORDER] > ORDER[known.state ?? "settled"]) {
      // The event is late, or there is none: the numbers are newer than our report.
      void refresh(one.run_id);
    }
  }
  announce();
}

async function refresh(runId: string): Promise<void> {
  try {
    put(await ask<Report>("GET", `/v1/runs/${encodeURIComponent(runId)}`));
  } catch {
    // the run was removed, or the daemon is gone: both are shown elsewhere
  }
}

function heard(type: string, event: MessageEvent<string>): void {
  if (event.lastEventId !== "") lastId = event.lastEventId;
  const data = JSON.parse(event.data) as { run_id: string | null; at: string; report?: Report } & Record<string, unknown>;
  if (type === "service.shutdown") {
    drain.value = drainOf(data);
    return;
  }
  if (data.report !== undefined) put(data.report);
  if (type === "run.verdict" && data.report?.status === "failed" && failedToday.value !== null) failedToday.value++;
  if (data.run_id !== null) touched.value = { runId: data.run_id, type, count: touched.value.count + 1 };
}

function drainOf(data: Record<string, unknown>): Drain {
  const budgetS = Number(data["budget_s"] ?? 0);
  return {
    policy: String(data["policy"]),
    budgetS,
    endsAt: Date.parse(String(data["at"])) + budgetS * 1000,
    busy: (data["busy"] as string[] | undefined) ?? [],
    queued: Number(data["queued"] ?? 0),
  };
}

/** The page was opened during a drain: the event log has the shutdown event. */
async function findDrain(): Promise<void> {
  const began = Date.parse(daemon.value?.started_at ?? "");
  const source = new EventSource("/v1/events?types=service.shutdown&after=0");
  source.addEventListener("service.shutdown", (event) => {
    const data = JSON.parse((event as MessageEvent<string>).data) as Record<string, unknown>;
    if (Date.parse(String(data["at"])) < began) return;
    source.close();
    drain.value ??= drainOf(data);
  });
  source.onerror = () => source.close();
}

async function load(): Promise<void> {
  loading.value = runs.size === 0;
  try {
    await loadLive();
    const counted = countFailures();
    let cursor: string | null = null;
    for (let limit = 100; runs.size < MOST; limit = 1000) {
      const page: RunPage = await ask("GET", `/v1/runs${query({ limit, cursor: cursor ?? undefined })}`);
      for (const report of page.runs) put(report);
      loading.value = false;
      cursor = page.cursor;
      if (cursor === null) break;
    }
    more.value = cursor !== null;
    await counted;
  } catch (error) {
    lost(error instanceof ProblemError ? error.message : String(error));
  }
}

/** The failures of today; the day may end while a page is open. */
async function countFailures(): Promise<void> {
  const midnight = new Date();
  midnight.setHours(0, 0, 0, 0);
  day = midnight.getTime();
  try {
    const today = await ask<Statistics>("GET", `/v1/statistics${query({ since: midnight.toISOString(), slices: 1 })}`);
    failedToday.value = today.outcomes["failed"] ?? 0;
  } catch (error) {
    if (!(error instanceof ProblemError) || error.status === 0) throw error;
    failedToday.value = null; // our clock may be ahead of the daemon's: its day has not begun
  }
}

/** The runs that are not over, including runs without events. */
async function loadLive(): Promise<void> {
  const states = ["queued", "starting", "running", "stopping"];
  const before = [...runs.values()].filter((run) => run.state !== "settled").map((run) => run.run_id);
  const live = new Set<string>();
  let cursor: string | null = null;
  do {
    const page: RunPage = await ask("GET", `/v1/runs${query({ state: states, limit: 1000, cursor: cursor ?? undefined })}`);
    for (const report of page.runs) {
      live.add(report.run_id);
      put(report);
    }
    cursor = page.cursor;
  } while (cursor !== null);
  for (const runId of before) if (!live.has(runId)) void refresh(runId);
}

function lost(was: string): void {
  disconnect();
  failures++;
  const wait = Math.min(5000, 250 * 2 ** failures);
  const since = connection.value.state === "gone" ? connection.value.since : Date.now();
  connection.value = { state: "gone", since, tryAt: Date.now() + wait, was };
  clearTimeout(timer);
  timer = setTimeout(() => void connect(), wait) as unknown as number;
}

function disconnect(): void {
  events?.close();
  looks?.close();
  events = looks = null;
}

setInterval(() => {
  if (document.hidden) return;
  now.value = Date.now();
  if (connection.value.state === "open" && day !== null && new Date().setHours(0, 0, 0, 0) !== day) countFailures().catch(() => undefined);
  if (connection.value.state === "open" && looks !== null && Date.now() - lastHeard > SILENT_MS) lost("nothing was heard for a while");
}, 1000);

document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else if (connection.value.state !== "login") void connect();
});
