// The banner: the daemon drains, or is gone. A disconnect is never silent.
import { duration, plain } from "./format.ts";
import { nameOf } from "./parts.tsx";
import { runLink } from "./router.ts";
import { changed, connect, connection, daemonNow, drain, now, runs } from "./store.ts";

export function Banner() {
  const state = connection.value;
  if (state.state === "gone") return <Gone since={state.since} tryAt={state.tryAt} was={state.was} />;
  if (drain.value !== null) return <Draining />;
  if (state.state === "connecting")
    return (
      <div class="banner" role="status">
        Connecting…
      </div>
    );
  return null;
}

function Gone({ since, tryAt, was }: { since: number; tryAt: number; was: string }) {
  const waits = Math.max(0, Math.ceil((tryAt - now.value) / 1000));
  return (
    <div class="banner gone" role="alert">
      <strong>{drain.value === null ? "The daemon is gone." : "The daemon has stopped."}</strong> What you see is as of{" "}
      {new Date(since).toLocaleTimeString()} ({plain(was)}). Runs go on in their guards; when it is back, what was missed is
      replayed.{" "}
      <span aria-hidden="true">{waits > 0 ? `Next try in ${waits}s.` : "Trying…"}</span>{" "}
      <button type="button" onClick={() => void connect()}>
        Try now
      </button>
    </div>
  );
}

function Draining() {
  changed.value;
  const { policy, endsAt, budgetS, busy, queued } = drain.value!;
  const left = busy.filter((runId) => runs.get(runId)?.state !== "settled");
  const leftS = Math.min(budgetS, Math.max(0, (endsAt - daemonNow()) / 1000));
  return (
    <div class="banner draining" role="alert">
      <strong>The daemon is shutting down</strong> ({policy}): it takes no new runs.{" "}
      {budgetS > 0 && (
        <span class="countdown" role="timer" aria-live="off">
          {leftS > 0 ? `${duration(Math.ceil(leftS))} of ${duration(budgetS)} left, then what still runs is cancelled.` : "The time is up: what still runs is cancelled."}
        </span>
      )}
      {queued > 0 && ` ${queued} queued for the next daemon.`}
      <ul class="busy" aria-label="Busy runs">
        {left.slice(0, 12).map((runId) => {
          const run = runs.get(runId);
          return (
            <li key={runId}>
              <a href={runLink(runId)}>{run === undefined ? runId : nameOf(run)}</a>
            </li>
          );
        })}
        {left.length > 12 && <li>and {left.length - 12} more</li>}
        {left.length === 0 && <li>no busy runs</li>}
      </ul>
    </div>
  );
}
