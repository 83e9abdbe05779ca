// Sessions: how many runs each has, a button that closes one, and a button that opens it again.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask } from "./api.ts";
import { askFor, attempt, tell } from "./dialog.tsx";
import { clock, count, plain } from "./format.ts";
import { Empty } from "./parts.tsx";
import { link } from "./router.ts";
import { connection, touched } from "./store.ts";
import type { Closing, Opening, Session, SessionList } from "./types.ts";

export function SessionsPage() {
  const sessions = useSignal<Session[] | null>(null);
  const look = async () => {
    const found = await attempt(() => ask<SessionList>("GET", "/v1/sessions"));
    if (found !== undefined) sessions.value = found.sessions;
  };
  const isOpen = connection.value.state === "open";
  useEffect(() => {
    // Events come in bursts: load once for each burst.
    const wait = setTimeout(() => {
      if (isOpen) void look();
    }, 100);
    return () => clearTimeout(wait);
  }, [touched.value, isOpen]);
  const close = async (name: string, live: number) => {
    const reason = await askFor({
      title: `Close session ${plain(name)}?`,
      body: `Its ${count(live, "run")} end now, with all their processes. The session stays closed, for hours or days, until somebody opens it again (here, or with holdfast session --open). Until then it refuses every new run.`,
      action: "Close session",
      danger: true,
      field: { label: "Reason (kept in the record)", value: "", placeholder: "optional" },
    });
    if (reason === null) return;
    const done = await attempt(() => ask<Closing>("DELETE", `/v1/sessions/${encodeURIComponent(name)}?${new URLSearchParams({ reason })}`));
    if (done === undefined) return;
    const bad = done.survivors.length + done.unknown.length + done.problems.length > 0;
    const rest = [...done.survivors.map((id) => `${id} has survivors`), ...done.unknown.map((id) => `${id} is unknown`), ...done.problems];
    tell(`${count(done.confirmed.length, "run")} confirmed gone`, rest.join("; ") || null, bad);
    void look();
  };
  const open = async (name: string) => {
    const done = await attempt(() => ask<Opening>("POST", `/v1/sessions/${encodeURIComponent(name)}/open`));
    if (done !== undefined) tell(`Session ${plain(name)} takes runs again`);
    void look();
  };
  return (
    <main id="main" class="page">
      <h1>Sessions</h1>
      {sessions.value === null ? (
        <p class="dim">Loading…</p>
      ) : sessions.value.length === 0 ? (
        <Empty>No sessions. Tag runs with --session NAME to end them together.</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Sessions">
          <table>
            <thead>
              <tr>
                <th scope="col">Session</th>
                <th scope="col" class="right">Queued</th>
                <th scope="col" class="right">Live</th>
                <th scope="col" class="right">Ended</th>
                <th scope="col">State</th>
                <th scope="col">
                  <span class="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {sessions.value.map((one) => (
                <tr key={one.name}>
                  <td>
                    <a href={link("/", new URLSearchParams({ session: one.name }))}>{plain(one.name)}</a>
                  </td>
                  <td class="right">{one.queued}</td>
                  <td class="right">{one.live}</td>
                  <td class="right">{one.ended}</td>
                  <td>
                    {one.closed ? (
                      <>
                        <span class="pill cancelled">closed</span> <span class="dim">{clock(one.closed_at ?? null)} {plain(one.reason ?? "")}</span>
                      </>
                    ) : (
                      <span class="pill live running">open</span>
                    )}
                  </td>
                  <td class="right">
                    {one.closed ? (
                      <button type="button" aria-label={`Open ${plain(one.name)} again`} onClick={() => void open(one.name)}>
                        Open again
                      </button>
                    ) : (
                      <button type="button" class="danger" aria-label={`Close ${plain(one.name)}`} onClick={() => void close(one.name, one.live + one.queued)}>
                        Close
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </main>
  );
}
