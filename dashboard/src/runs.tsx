// The live table. The page holds only the visible rows; the rest is arithmetic.
import { signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { cancelRuns } from "./actions.ts";
import { count, duration, plain, rate, size } from "./format.ts";
import { ageOf, Bar, commandOf, Empty, Labels, nameOf, Outcome } from "./parts.tsx";
import { go, place, runLink, setParameters } from "./router.ts";
import { changed, connection, loading, more, now, numbers, runs } from "./store.ts";
import type { Run } from "./store.ts";

export type Row = { run: Run; depth: number; children: number };

const LIVE = ["queued", "starting", "running", "stopping"];
const STATUSES = ["succeeded", "failed", "timed_out", "cancelled", "lost"];
const OVERSCAN = 8;
const selected = signal<ReadonlySet<string>>(new Set());
const folded = signal<ReadonlySet<string>>(new Set());

const SORTS: Record<string, (run: Run) => number | string> = {
  live: (run) => `${run.state === "settled" || run.state === null ? 0 : 1}${SORTS["begun"]!(run)}`,
  begun: (run) => run.queued_at ?? run.started_at ?? run.verdict_at ?? "",
  state: (run) => `${run.state} ${run.status} ${run.cause}`,
  name: (run) => nameOf(run).toLowerCase(),
  session: (run) => run.session ?? "",
  deadline: (run) => numbers.get(run.run_id)?.deadline_at ?? "9",
  idle: (run) => numbers.get(run.run_id)?.idle_at ?? "9",
  cpu: (run) => numbers.get(run.run_id)?.cpu_percent ?? -1,
  memory: (run) => numbers.get(run.run_id)?.rss_bytes ?? -1,
  rate: (run) => numbers.get(run.run_id)?.output_rate ?? -1,
};

export function matches(run: Run, filters: URLSearchParams): boolean {
  const state = filters.get("state");
  if (state === "live" ? run.state === "settled" || run.state === null : state !== null && run.state !== state) return false;
  const status = filters.get("status");
  if (status !== null && run.status !== status) return false;
  const cause = filters.get("cause");
  if (cause !== null && run.cause !== cause) return false;
  const session = filters.get("session");
  if (session !== null && run.session !== session) return false;
  const label = filters.get("label");
  if (label !== null) {
    const [name = "", value] = label.split("=", 2);
    const own = run.labels[name];
    if (own === undefined || (value !== undefined && own !== value)) return false;
  }
  const waits = filters.get("waiting");
  if (waits !== null && !isWaiting(run)) return false;
  const text = filters.get("q")?.toLowerCase();
  if (text !== undefined) {
    const ports = portsOf(run).map((port) => `:${port}`);
    const whole = [run.run_id, run.name, run.session, run.reason, ...(run.argv ?? []), ...Object.entries(run.labels).flat(), ...ports];
    if (!whole.some((part) => part?.toLowerCase().includes(text))) return false;
  }
  return true;
}

export function isWaiting(run: Run): boolean {
  if (run.status !== null) return false;
  return numbers.get(run.run_id)?.waiting_for_input === true;
}

export function portsOf(run: Run): number[] {
  return run.state === "settled" ? [] : (numbers.get(run.run_id)?.ports ?? []);
}

export function arrange(found: Iterable<Run>, filters: URLSearchParams, closed: ReadonlySet<string>): Row[] {
  const sort = filters.get("sort") ?? "-live";
  const down = sort.startsWith("-");
  const by = SORTS[sort.replace(/^-/, "")] ?? SORTS["live"]!;
  const wanted = [...found].filter((run) => matches(run, filters));
  const keyed = wanted.map((run) => ({ run, key: by(run) }));
  keyed.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.run.run_id < b.run.run_id ? -1 : 1) * (down ? -1 : 1));
  const present = new Set(wanted.map((run) => run.run_id));
  const inside = new Map<string, Run[]>();
  const roots: Run[] = [];
  for (const { run } of keyed) {
    if (run.parent !== null && run.parent !== run.run_id && present.has(run.parent)) {
      const brothers = inside.get(run.parent);
      if (brothers === undefined) inside.set(run.parent, [run]);
      else brothers.push(run);
    } else roots.push(run);
  }
  const rows: Row[] = [];
  const placed = new Set<string>();
  const put = (run: Run, depth: number) => {
    if (placed.has(run.run_id)) return;
    placed.add(run.run_id);
    const children = inside.get(run.run_id) ?? [];
    rows.push({ run, depth, children: children.length });
    if (!closed.has(run.run_id)) for (const child of children) put(child, depth + 1);
  };
  for (const run of roots) put(run, 0);
  return rows;
}

export function RunsPage() {
  const rows = useComputed(() => {
    changed.value;
    return arrange(runs.values(), place.value.parameters, folded.value);
  });
  return (
    <main class={connection.value.state === "gone" ? "runs stale" : "runs"} id="main">
      <h1 class="sr">Runs</h1>
      <Filters shown={rows.value.length} />
      <Selection rows={rows.value} />
      <Table rows={rows.value} />
    </main>
  );
}

function Filters({ shown }: { shown: number }) {
  const filters = place.value.parameters;
  changed.value;
  const causes = new Set<string>();
  const sessions = new Set<string>();
  const labels = new Set<string>();
  for (const run of runs.values()) {
    if (run.cause !== null) causes.add(run.cause);
    if (run.session !== null && sessions.size < 500) sessions.add(run.session);
    if (labels.size < 500) for (const [name, value] of Object.entries(run.labels)) labels.add(`${name}=${value}`);
  }
  const isFiltered = ["state", "status", "cause", "session", "label", "q", "waiting"].some((name) => filters.has(name));
  return (
    <form class="filters" role="search" aria-label="Filter runs" onSubmit={(event) => event.preventDefault()}>
      <input
        id="search"
        type="search"
        placeholder="Search name, command, id…  ( / )"
        aria-label="Text"
        value={filters.get("q") ?? ""}
        onInput={(event) => setParameters({ q: event.currentTarget.value })}
      />
      <Choice name="state" choices={["live", ...LIVE, "settled"]} />
      <Choice name="status" choices={STATUSES} />
      <Choice name="cause" choices={[...causes].sort()} />
      <Choice name="session" choices={[...sessions].sort()} />
      <Choice name="label" choices={[...labels].sort()} />
      {isFiltered && (
        <button type="button" onClick={() => setParameters({ state: null, status: null, cause: null, session: null, label: null, q: null, waiting: null })}>
          Clear
        </button>
      )}
      <span class="dim grow end" role="status">
        {shown === runs.size ? count(shown, "run") : `${shown.toLocaleString("en")} of ${count(runs.size, "run")}`}
        {more.value && " (older ones are in History)"}
      </span>
    </form>
  );
}

function Choice({ name, choices }: { name: string; choices: string[] }) {
  const value = place.value.parameters.get(name) ?? "";
  const known = value === "" || choices.includes(value) ? choices : [value, ...choices];
  return (
    <select
      aria-label={name}
      class={value === "" ? "unset" : ""}
      value={value}
      onChange={(event) => setParameters({ [name]: event.currentTarget.value })}
    >
      <option value="">any {name}</option>
      {known.map((one) => (
        <option key={one} value={one}>
          {plain(one)}
        </option>
      ))}
    </select>
  );
}

function Selection({ rows }: { rows: Row[] }) {
  const chosen = rows.filter(({ run }) => selected.value.has(run.run_id) && run.status === null).map(({ run }) => run.run_id);
  if (selected.value.size === 0) return null;
  return (
    <div class="selection" role="region" aria-label="Selected runs">
      <strong>{count(selected.value.size, "run")} selected</strong>
      <button type="button" class="danger" disabled={chosen.length === 0} onClick={() => void cancelChosen(chosen, false)}>
        Cancel {chosen.length}
      </button>
      <button type="button" class="danger" disabled={chosen.length === 0} onClick={() => void cancelChosen(chosen, true)}>
        Cancel {chosen.length} now
      </button>
      <button type="button" onClick={() => (selected.value = new Set())}>
        Select none
      </button>
    </div>
  );
}

async function cancelChosen(chosen: string[], at_once: boolean): Promise<void> {
  if (await cancelRuns(chosen, at_once)) selected.value = new Set();
}

const COLUMNS: [string, string, string][] = [
  ["state", "State", "c-state"],
  ["name", "Run", "c-name"],
  ["session", "Session", "c-session"],
  ["begun", "Age", "c-age"],
  ["deadline", "Deadline", "c-bar"],
  ["idle", "Idle limit", "c-bar"],
  ["cpu", "CPU", "c-number"],
  ["memory", "Memory", "c-number"],
  ["rate", "Output", "c-number"],
];

function Table({ rows }: { rows: Row[] }) {
  const scroller = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const rowHeight = useSignal(40);
  const cursor = useSignal(0);
  useEffect(() => {
    const box = scroller.current!;
    const measure = () => {
      height.value = box.clientHeight;
      rowHeight.value = window.matchMedia("(max-width: 760px)").matches ? 64 : 40;
    };
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    measure();
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(top.value / rowHeight.value) - OVERSCAN);
  const last = Math.min(rows.length, Math.ceil((top.value + height.value) / rowHeight.value) + OVERSCAN);
  const at = Math.min(cursor.value, Math.max(0, rows.length - 1));
  const sort = place.value.parameters.get("sort") ?? "-live";

  const move = (to: number) => {
    cursor.value = Math.max(0, Math.min(rows.length - 1, to));
    const box = scroller.current!;
    const place = cursor.value * rowHeight.value;
    if (place < box.scrollTop) box.scrollTop = place;
    else if (place + rowHeight.value > box.scrollTop + box.clientHeight - 36) box.scrollTop = place + rowHeight.value - box.clientHeight + 36;
    requestAnimationFrame(() => box.querySelector<HTMLElement>(`[data-row="${cursor.value}"]`)?.focus());
  };
  const onKey = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(height.value / rowHeight.value) - 2);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
    const row = rows[at];
    if (event.target instanceof HTMLInputElement && event.key === " ") return;
    if (event.key in steps && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      move(at + steps[event.key]!);
    } else if (row === undefined || event.ctrlKey || event.metaKey) {
      return;
    } else if (event.key === "Enter" && !(event.target instanceof HTMLButtonElement)) {
      go(runLink(row.run.run_id).slice(1));
    } else if (event.key === " " || event.key === "x") {
      event.preventDefault();
      toggle(row.run.run_id);
    } else if (event.key === "c") {
      const chosen = selected.value.size > 0 ? [...selected.value] : [row.run.run_id];
      void cancelChosen(chosen.filter((id) => runs.get(id)?.status === null), false);
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      fold(row.run.run_id, event.key === "ArrowLeft");
    }
  };

  const live = rows.filter(({ run }) => run.status === null);
  const all = live.length > 0 && live.every(({ run }) => selected.value.has(run.run_id));
  return (
    <div
      class="table"
      role="table"
      aria-label="Runs"
      aria-rowcount={rows.length + 1}
      ref={scroller}
      onScroll={(event) => (top.value = event.currentTarget.scrollTop)}
      onKeyDown={onKey}
    >
      <div class="row head" role="row" aria-rowindex={1}>
        <span class="c-select" role="columnheader">
          <input
            type="checkbox"
            aria-label="Select all that are not decided"
            checked={all}
            disabled={live.length === 0}
            onChange={() => (selected.value = all ? new Set() : new Set(live.map(({ run }) => run.run_id)))}
          />
        </span>
        {COLUMNS.map(([key, title, kind]) => {
          const isSorted = sort.replace(/^-/, "").replace("live", "begun") === key;
          const isDown = sort.startsWith("-");
          return (
            <span key={key} class={kind} role="columnheader" aria-sort={isSorted ? (isDown ? "descending" : "ascending") : "none"}>
              <button type="button" class="sort" onClick={() => setParameters({ sort: isSorted && isDown ? key : `-${key}` })}>
                {title}
                <span aria-hidden="true">{isSorted ? (isDown ? " ↓" : " ↑") : ""}</span>
              </button>
            </span>
          );
        })}
      </div>
      <div class="body" role="rowgroup" style={{ height: `${rows.length * rowHeight.value}px` }}>
        {rows.slice(first, last).map((row, place) => (
          <Line key={row.run.run_id} row={row} number={first + place} top={(first + place) * rowHeight.value} current={first + place === at} />
        ))}
      </div>
      {rows.length === 0 && (
        <Empty>{loading.value ? "Loading…" : runs.size === 0 ? "No runs yet. Start one: holdfast submit -- COMMAND" : "No run fits these filters."}</Empty>
      )}
    </div>
  );
}

function toggle(runId: string): void {
  const next = new Set(selected.value);
  if (!next.delete(runId)) next.add(runId);
  selected.value = next;
}

function fold(runId: string, close: boolean): void {
  const next = new Set(folded.value);
  if (close) next.add(runId);
  else next.delete(runId);
  folded.value = next;
}

function Line({ row, number, top, current }: { row: Row; number: number; top: number; current: boolean }) {
  now.value;
  const { run, depth, children } = row;
  const live = numbers.get(run.run_id);
  const isLive = run.state !== "settled" && run.state !== null;
  const isChosen = selected.value.has(run.run_id);
  const name = nameOf(run);
  const isFolded = folded.value.has(run.run_id);
  return (
    <div
      class={`row${isChosen ? " chosen" : ""}`}
      role="row"
      aria-rowindex={number + 2}
      data-row={number}
      data-run={run.run_id}
      tabIndex={current ? 0 : -1}
      style={{ transform: `translateY(${top}px)` }}
      onClick={(event) => {
        if (!(event.target as HTMLElement).closest("a,button,input,label") && getSelection()?.isCollapsed !== false) go(runLink(run.run_id).slice(1));
      }}
    >
      <span class="c-select" role="cell">
        <input type="checkbox" aria-label={`Select ${name}`} checked={isChosen} tabIndex={-1} onChange={() => toggle(run.run_id)} />
      </span>
      <span class="c-state" role="cell">
        <Outcome run={run} waiting={isWaiting(run)} />
      </span>
      <span class="c-name" role="cell" style={depth > 0 ? { paddingLeft: `${Math.min(depth, 6) * 18}px` } : undefined}>
        {children > 0 && (
          <button
            type="button"
            class="quiet fold"
            tabIndex={-1}
            aria-expanded={!isFolded}
            aria-label={`${isFolded ? "Show" : "Hide"} ${count(children, "nested run")} of ${name}`}
            onClick={() => fold(run.run_id, !isFolded)}
          >
            {isFolded ? "▸" : "▾"}
          </button>
        )}
        {depth > 0 && (
          <span class="dim" aria-hidden="true">
            └{" "}
          </span>
        )}
        <a href={runLink(run.run_id)} tabIndex={-1} title={commandOf(run).slice(0, 1000)}>
          {name}
        </a>
        <Labels labels={run.labels} />
        {portsOf(run).map((port) => (
          <span key={port} class="label" title={`It listens on port ${port}`}>
            :{port}
          </span>
        ))}
        {run.reason !== null && run.status !== "succeeded" && <span class="dim why">{plain(run.reason)}</span>}
      </span>
      <span class="c-session" role="cell">
        {run.session === null ? <span class="dim">–</span> : plain(run.session)}
      </span>
      <span class="c-age" role="cell" title={run.started_at ?? run.queued_at ?? ""}>
        {duration(ageOf(run))}
      </span>
      <span class="c-bar" role="cell">
        {isLive && run.status === null ? (
          <Bar label="Time to the deadline" endsAt={live?.deadline_at ?? null} totalS={live?.timeout_s ?? null} />
        ) : (
          <span class="dim">{run.duration_s === null ? "–" : `ran ${duration(run.duration_s)}`}</span>
        )}
      </span>
      <span class="c-bar" role="cell">
        {isLive && run.status === null ? (
          <Bar label="Time to the idle limit" endsAt={live?.idle_at ?? null} totalS={live?.idle_timeout_s ?? null} />
        ) : (
          <span class="dim">–</span>
        )}
      </span>
      <span class="c-number" role="cell">
        {live === undefined || live.cpu_percent === null ? <span class="dim">–</span> : `${Math.round(live.cpu_percent)} %`}
      </span>
      <span class="c-number" role="cell">
        {size(live?.rss_bytes ?? (isLive ? null : run.usage.max_rss_bytes))}
      </span>
      <span class="c-number" role="cell">
        {isLive ? rate(live?.output_rate) : <span class="dim">{size((run.output.stdout_bytes ?? 0) + (run.output.stderr_bytes ?? 0))}</span>}
      </span>
    </div>
  );
}

export function focusSearch(): void {
  document.getElementById("search")?.focus();
}
