// The evidence as a drawing: the facts in time, the output between them, and the decisive fact.
import { duration, size } from "./format.ts";
import type { Timeline } from "./types.ts";

/** Places from 0 to 1 of moments in order, and of any time. Half by time, half by order: facts of one moment, or within
 * a moment at the end, can still be told apart. */
export function scale(times: number[], end: number): { places: number[]; x: (at: number) => number } {
  const points = end > (times.at(-1) ?? -1) ? [...times, end] : times;
  const begin = points[0] ?? 0;
  const places = points.map(
    (at, order) => 0.5 * (end > begin ? (at - begin) / (end - begin) : 0) + 0.5 * (points.length > 1 ? order / (points.length - 1) : 0),
  );
  const x = (at: number) => {
    let low = 0;
    while (low < points.length - 2 && points[low + 1]! <= at) low++;
    const from = points[low]!;
    const to = points[low + 1] ?? from;
    const part = to > from ? Math.min(1, Math.max(0, (at - from) / (to - from))) : 0;
    return places[low]! + part * ((places[low + 1] ?? places[low]!) - places[low]!);
  };
  return { places, x };
}

const KINDS: Record<string, string> = {
  started: "start",
  warned: "warn",
  deadline: "limit",
  idle: "limit",
  limit: "limit",
  oom: "limit",
  queue_expired: "limit",
  stop_asked: "stop",
  signalled: "rung",
  exited: "exit",
  spawn_failed: "exit",
  drained: "drain",
  tree: "tree",
  end: "tree",
};

export function TimelineView({ timeline }: { timeline: Timeline }) {
  const { moments, activity } = timeline;
  if (moments.length === 0) return <p class="empty">Nothing has happened yet: it waits in the queue.</p>;
  const times = moments.map((one) => one.at_s ?? 0);
  const end = Math.max(timeline.now_s ?? 0, ...times, ...activity.map((one) => one.at_s), 0.001);
  const { places, x } = scale(times, end);
  const most = Math.max(1, ...activity.map((one) => one.bytes));
  const started = places[moments.findIndex((one) => one.fact === "started")];
  const exited = places[moments.findIndex((one) => one.fact === "exited")] ?? 1;
  const decided = places[moments.findIndex((one) => one.mark === "decided")];
  return (
    <div class="timeline">
      <div class="track" role="img" aria-label={`Drawing of ${moments.length} facts over ${duration(end)}; the list below tells them`}>
        {started !== undefined && <div class="span command" style={{ left: pct(started), width: pct(Math.max(0.002, exited - started)) }} />}
        {decided !== undefined && <div class="after" style={{ left: pct(decided) }} />}
        {activity.map((one, place) => (
          <div
            key={place}
            class={one.late ? "tick late" : "tick"}
            style={{ left: pct(x(one.at_s)), height: `${6 + 26 * Math.sqrt(one.bytes / most)}px` }}
            title={`${size(one.bytes)} of output at ${duration(one.at_s)}`}
          />
        ))}
        {moments.map((one, place) => (
          <div
            key={place}
            class={`dot ${KINDS[one.fact] ?? ""} ${one.mark}`}
            style={{ left: pct(places[place]!), top: `${place % 2 === 0 ? 46 : 68}px` }}
            title={`${duration(one.at_s)}: ${one.words}`}
          >
            {place + 1}
          </div>
        ))}
      </div>
      <div class="ends dim" aria-hidden="true">
        <span>{duration(Math.min(...times))}</span>
        <span>drawn by time and order</span>
        <span>
          {duration(end)}
          {timeline.now_s != null && " (now)"}
        </span>
      </div>
      <ol class="moments">
        {moments.map((one, place) => (
          <li key={place} class={one.mark}>
            <span class={`dot ${KINDS[one.fact] ?? ""} ${one.mark}`} aria-hidden="true">
              {place + 1}
            </span>
            <span class="when">{one.at_s === null || one.at_s === undefined ? "–" : `${one.at_s.toFixed(3)}s`}</span>
            <span class="what">
              {one.words}
              {one.mark === "decided" && <strong class="verdict"> decided</strong>}
              {one.mark === "late" && <em class="dim"> came too late to decide</em>}
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function pct(part: number): string {
  return `${(part * 100).toFixed(2)}%`;
}
