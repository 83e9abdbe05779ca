// Small components that several pages show.
import { duration, plain } from "./format.ts";
import { daemonNow } from "./store.ts";
import type { Run } from "./store.ts";

/** State, and after the verdict status and cause, in the contract's words; never by colour alone. */
export function Outcome({ run, waiting }: { run: Run; waiting?: boolean }) {
  if (run.problem) return <span class="pill lost">unreadable</span>;
  const words = run.status === null ? null : `${run.status} · ${run.cause}`;
  if (run.state === "settled" || run.state === null)
    return <span class={`pill ${run.status ?? "lost"}`}>{words ?? "unknown"}</span>;
  return (
    <>
      <span class={`pill live ${run.state}`}>{run.state}</span>
      {words !== null && <span class={`pill ${run.status}`}>{words}</span>}
      {waiting === true && words === null && <span class="pill waiting">waiting for input</span>}
    </>
  );
}

/** The remaining part of a span: a bar that empties, with the time in words. */
export function Bar({ label, endsAt, totalS }: { label: string; endsAt: string | null; totalS: number | null }) {
  if (endsAt === null || totalS === null || totalS <= 0) return <span class="dim">–</span>;
  // Our estimate of the daemon's clock can be late by the duration of an answer: the rest never exceeds the whole.
  const leftS = Math.min(totalS, Math.max(0, (Date.parse(endsAt) - daemonNow()) / 1000));
  const part = leftS / totalS;
  const text = `${duration(leftS < 10 ? Math.round(leftS) : leftS)} left`;
  return (
    <span
      class={`bar${part < 0.1 ? " short" : part < 0.25 ? " low" : ""}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.round(totalS)}
      aria-valuenow={Math.round(leftS)}
      aria-valuetext={text}
      title={`${label}: ${text} of ${duration(totalS)}`}
    >
      <span class="fill" style={{ width: `${(part * 100).toFixed(1)}%` }} />
      <span class="words">{duration(leftS < 10 ? Math.round(leftS) : leftS)}</span>
    </span>
  );
}

export function commandOf(run: Run): string {
  return plain((run.argv ?? []).join(" "));
}

export function nameOf(run: Run): string {
  return run.name !== null && run.name !== "" ? plain(run.name) : commandOf(run).slice(0, 200) || run.run_id;
}

export function ageOf(run: Run): number | null {
  const begun = run.started_at ?? run.queued_at ?? run.verdict_at;
  return begun === null ? null : Math.max(0, (daemonNow() - Date.parse(begun)) / 1000);
}

export function Labels({ labels }: { labels: Record<string, string> }) {
  return (
    <>
      {Object.entries(labels).map(([name, value]) => (
        <span key={name} class="label">
          {plain(name)}={plain(value)}
        </span>
      ))}
    </>
  );
}

export function Empty({ children }: { children: preact.ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
