// The problems of this host, and their repair: first a dry run, then the repair.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask } from "./api.ts";
import { attempt } from "./dialog.tsx";
import { clock, count, plain } from "./format.ts";
import { Empty } from "./parts.tsx";
import { runLink } from "./router.ts";
import { connection } from "./store.ts";
import type { Doctor, Done, Planned, Reaped, RepairPlan } from "./types.ts";

export function DoctorPage() {
  const found = useSignal<Doctor | null>(null);
  const plan = useSignal<Planned[] | null>(null);
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const done = useSignal<Done[]>([]);
  const busy = useSignal(false);
  const during = async (work: () => Promise<void>) => {
    busy.value = true;
    await attempt(work);
    busy.value = false;
  };
  const look = () =>
    during(async () => {
      found.value = await ask<Doctor>("GET", "/v1/doctor");
    });
  const tryOut = () =>
    during(async () => {
      const { repairs } = await ask<RepairPlan>("GET", "/v1/doctor/repairs");
      plan.value = repairs;
      chosen.value = new Set(repairs.map((one) => one.repair));
      done.value = [];
    });
  const reap = () =>
    during(async () => {
      const answer = await ask<Reaped>("POST", "/v1/doctor/repairs", { repairs: [...chosen.value] });
      done.value = answer.done;
      plan.value = null;
      found.value = await ask<Doctor>("GET", "/v1/doctor");
    });
  const isOpen = connection.value.state === "open";
  useEffect(() => {
    if (isOpen) void look();
  }, [isOpen]);
  const doctor = found.value;
  const worth = doctor?.findings.filter((one) => one.needs_action) ?? [];
  return (
    <main id="main" class="page">
      <div class="title">
        <h1>Doctor</h1>
        {doctor !== null && <span class={`pill ${doctor.healthy ? "succeeded" : "failed"}`}>{doctor.healthy ? "healthy" : `${count(worth.length, "finding")} to look at`}</span>}
        <span class="grow" />
        <button type="button" disabled={busy.value} onClick={() => void look()}>
          Look again
        </button>
        <button type="button" class="primary" disabled={busy.value} onClick={() => void tryOut()}>
          Reap: dry run
        </button>
      </div>
      {busy.value && (
        <p class="dim" role="status">
          Looking…
        </p>
      )}
      {plan.value !== null && (
        <section class="plan" aria-label="Dry run">
          <h2>Dry run</h2>
          {plan.value.length === 0 ? (
            <Empty>There is nothing to reap.</Empty>
          ) : (
            <>
              <p>This would be done. Nothing has been changed yet.</p>
              <ul>
                {plan.value.map((one) => (
                  <li key={one.repair}>
                    <label>
                      <input
                        type="checkbox"
                        checked={chosen.value.has(one.repair)}
                        onChange={() => {
                          const next = new Set(chosen.value);
                          if (!next.delete(one.repair)) next.add(one.repair);
                          chosen.value = next;
                        }}
                      />{" "}
                      {plain(one.what)} {one.run_id && <code>{one.run_id}</code>} {one.pids.length > 0 && <span class="dim">PID {one.pids.join(", ")}</span>}
                    </label>
                  </li>
                ))}
              </ul>
              <div class="buttons">
                <button type="button" class="danger" disabled={busy.value || chosen.value.size === 0} onClick={() => void reap()}>
                  Reap {chosen.value.size}
                </button>
                <button type="button" onClick={() => (plan.value = null)}>
                  Leave it
                </button>
              </div>
            </>
          )}
        </section>
      )}
      {done.value.length > 0 && (
        <section aria-label="Done">
          <h2>Done</h2>
          <ul>
            {done.value.map((one) => (
              <li key={one.repair}>
                <span class={`pill ${one.confirmed ? "succeeded" : "failed"}`}>{one.confirmed ? "confirmed" : "not done"}</span> {plain(one.what)}: {plain(one.result)}
              </li>
            ))}
          </ul>
        </section>
      )}
      {doctor !== null && (
        <>
          <p class="dim">
            Daemon {doctor.daemon.version}, process {doctor.daemon.pid}, since {clock(doctor.daemon.started_at)}
          </p>
          <ul class="findings" aria-label="Findings">
            {[...doctor.findings]
              .sort((a, b) => Number(b.needs_action) - Number(a.needs_action))
              .map((one, place) => (
                <li key={place}>
                  <span class={`pill ${{ ok: "succeeded", warning: "timed_out", problem: "failed" }[one.level] ?? "lost"}`}>{one.level}</span>
                  <span class="topic">{one.topic}</span>
                  <span>
                    {plain(one.what)} {one.run_id && <a href={runLink(one.run_id)}>{one.run_id}</a>}
                    {one.pids.length > 0 && <span class="dim"> PID {one.pids.join(", ")}</span>}
                    {one.remedy && <span class="dim remedy">{plain(one.remedy)}</span>}
                  </span>
                </li>
              ))}
          </ul>
        </>
      )}
    </main>
  );
}
