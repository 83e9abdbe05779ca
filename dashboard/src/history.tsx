// Ended runs: charts over time, and a search through names and through the logs themselves.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ask, query } from "./api.ts";
import { attempt } from "./dialog.tsx";
import { clock, count, duration, plain } from "./format.ts";
import { Empty, nameOf, Outcome } from "./parts.tsx";
import { place, runLink, setParameters } from "./router.ts";
import { connection, runs } from "./store.ts";
import type { Match, Matches, Report, RunPage, Statistics } from "./types.ts";

const SPANS: [string, string, number][] = [
  ["1h", "last hour", 3600],
  ["24h", "last day", 86400],
  ["7d", "last week", 7 * 86400],
  ["30d", "last 30 days", 30 * 86400],
];
const STATUSES = ["succeeded", "failed", "timed_out", "cancelled", "lost"];
// A drawn chart does not change its colours by itself when the system changes between light and dark.
const darkness = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = signal(darkness.matches);
darkness.addEventListener("change", (event) => (isDark.value = event.matches));

export function HistoryPage() {
  const { parameters } = place.value;
  const span = SPANS.find(([name]) => name === parameters.get("span")) ?? SPANS[1]!;
  const status = parameters.get("status") ?? "";
  const text = parameters.get("q") ?? "";
  return (
    <main id="main" class="page history">
      <h1>History</h1>
      <form class="filters" role="search" aria-label="Search history" onSubmit={(event) => event.preventDefault()}>
        <input
          id="search"
          type="search"
          aria-label="Search in logs"
          placeholder="Search in the logs…"
          value={text}
          onInput={(event) => setParameters({ q: event.currentTarget.value })}
        />
        <select aria-label="status" value={status} onChange={(event) => setParameters({ status: event.currentTarget.value })}>
          <option value="">any status</option>
          {STATUSES.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        <select aria-label="Time" value={span[0]} onChange={(event) => setParameters({ span: event.currentTarget.value })}>
          {SPANS.map(([name, title]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
      </form>
      <Charts seconds={span[2]} />
      {text !== "" ? <Found text={text} status={status} seconds={span[2]} /> : <Ended status={status} seconds={span[2]} />}
    </main>
  );
}

function Charts({ seconds }: { seconds: number }) {
  const statistics = useSignal<Statistics | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const isOpen = connection.value.state === "open";
  useEffect(() => {
    if (!isOpen) return;
    const since = new Date(Date.now() - seconds * 1000).toISOString();
    void attempt(async () => {
      statistics.value = await ask<Statistics>("GET", `/v1/statistics${query({ since, slices: 60 })}`);
    });
  }, [seconds, isOpen]);
  useEffect(() => {
    const found = statistics.value;
    if (found === null || box.current === null) return;
    const target = box.current;
    let clear = () => {};
    let isGone = false;
    void import("./charts.ts").then(({ draw }) => {
      if (!isGone) clear = draw(target, found);
    });
    return () => {
      isGone = true;
      clear();
    };
  }, [statistics.value, isDark.value]);
  const found = statistics.value;
  const total = found === null ? 0 : Object.values(found.outcomes).reduce((sum, one) => sum + one, 0);
  return (
    <section aria-label="Charts">
      {found !== null && (
        <p class="totals" role="status">
          <strong>{count(total, "run")}</strong>
          {STATUSES.filter((one) => (found.outcomes[one] ?? 0) > 0).map((one) => (
            <span key={one} class={`pill ${one}`}>
              {found.outcomes[one]} {one}
            </span>
          ))}
          {found.truncated && <span class="dim">only the newest are counted</span>}
        </p>
      )}
      <div class="charts" ref={box} />
    </section>
  );
}

function Ended({ status, seconds }: { status: string; seconds: number }) {
  const found = useSignal<Report[]>([]);
  const cursor = useSignal<string | null>(null);
  const load = async (next: string | null) => {
    const since = new Date(Date.now() - seconds * 1000).toISOString();
    const page = await attempt(() =>
      ask<RunPage>("GET", `/v1/runs${query({ state: "settled", status: status === "" ? undefined : status, since, limit: 100, cursor: next ?? undefined })}`),
    );
    if (page === undefined) return;
    found.value = next === null ? page.runs : [...found.value, ...page.runs];
    cursor.value = page.cursor;
  };
  const isOpen = connection.value.state === "open";
  useEffect(() => {
    if (isOpen) void load(null);
  }, [status, seconds, isOpen]);
  if (found.value.length === 0) return <Empty>Nothing has ended in this time.</Empty>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Ended runs">
      <table>
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">Outcome</th>
            <th scope="col">Settled</th>
            <th scope="col" class="right">Duration</th>
            <th scope="col">Reason</th>
          </tr>
        </thead>
        <tbody>
          {found.value.map((run) => (
            <tr key={run.run_id}>
              <td class="name">
                <a href={runLink(run.run_id)}>{nameOf(run)}</a>
              </td>
              <td class="nowrap">
                <Outcome run={run} />
              </td>
              <td class="nowrap">{clock(run.settled_at)}</td>
              <td class="right">{duration(run.duration_s)}</td>
              <td class="why">{plain(run.reason ?? "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {cursor.value !== null && (
        <button type="button" onClick={() => void load(cursor.value)}>
          More
        </button>
      )}
    </div>
  );
}

function Found({ text, status, seconds }: { text: string; status: string; seconds: number }) {
  const matches = useSignal<Match[]>([]);
  const cursor = useSignal<string | null>(null);
  const searched = useSignal(0);
  const busy = useSignal(true);
  const look = async (next: string | null, signal?: AbortSignal) => {
    busy.value = true;
    const since = new Date(Date.now() - seconds * 1000).toISOString();
    const found = await attempt(() =>
      ask<Matches>("GET", `/v1/search${query({ q: text, status: status === "" ? undefined : status, since, limit: 100, cursor: next ?? undefined })}`, undefined, signal),
    );
    if (signal?.aborted) return;
    busy.value = false;
    if (found === undefined) return;
    matches.value = next === null ? found.matches : [...matches.value, ...found.matches];
    searched.value = (next === null ? 0 : searched.value) + found.runs_searched;
    cursor.value = found.cursor;
  };
  useEffect(() => {
    const control = new AbortController();
    const wait = setTimeout(() => void look(null, control.signal), 250);
    return () => {
      clearTimeout(wait);
      control.abort();
    };
  }, [text, status, seconds]);
  return (
    <section aria-label="Found in logs">
      <h2>In the logs</h2>
      <p class="dim" role="status">
        {busy.value ? "Searching…" : `${count(matches.value.length, "line")} in the logs of ${count(searched.value, "run")}`}
      </p>
      <ul class="matches">
        {matches.value.map((one) => {
          const run = runs.get(one.run_id);
          return (
            <li key={`${one.run_id}${one.offset}`}>
              <a href={runLink(one.run_id)}>{run === undefined ? one.run_id : nameOf(run)}</a>{" "}
              <span class="dim">
                {one.stream}
                {one.late && ", late"}
              </span>
              <code>{plain(one.line.trim())}</code>
            </li>
          );
        })}
      </ul>
      {cursor.value !== null && !busy.value && (
        <button type="button" onClick={() => void look(cursor.value)}>
          Search older runs
        </button>
      )}
    </section>
  );
}
