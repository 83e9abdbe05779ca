// The page of one run: its report, evidence and decisive fact, process tree and log; and the actions on it.
import { useSignal } from "@preact/signals";
import { cancelRuns, copyAsCommand, extend, sendInput } from "./actions.ts";
import { clock, count, duration, plain, size } from "./format.ts";
import { LogView } from "./log.tsx";
import { Bar, commandOf, Labels, nameOf, Outcome } from "./parts.tsx";
import { link, runLink } from "./router.ts";
import { isWaiting, portsOf } from "./runs.tsx";
import { useStory } from "./story.ts";
import { TimelineView } from "./timeline.tsx";
import type { ProcessTree, Report } from "./types.ts";

export function RunPage({ runId }: { runId: string }) {
  const { report: found, timeline, tree, spec, problem, live, wakes } = useStory(runId);
  if (problem !== null)
    return (
      <main id="main" class="page">
        <h1>Run {plain(runId)}</h1>
        <p>{problem.message}</p>
        <p class="dim">{problem.remedy}</p>
        <a href="#/">All runs</a>
      </main>
    );
  if (found === null)
    return (
      <main id="main" class="page">
        <h1>Run {plain(runId)}</h1>
        <p class="dim" role="status">
          Loading…
        </p>
      </main>
    );
  const isLive = found.state !== "settled" && found.state !== null;
  return (
    <main id="main" class="page run">
      <div class="title">
        <h1>{nameOf(found)}</h1>
        <Outcome run={found} waiting={isWaiting(found)} />
        <span class="grow" />
        <Buttons report={found} spec={spec} />
      </div>
      {found.reason !== null && <p class="reason">{plain(found.reason)}</p>}
      {found.problem && <p class="reason bad">{plain(found.problem)}</p>}
      <code class="command">{commandOf(found)}</code>
      {live !== undefined && found.status === null && (
        <div class="limits">
          {live.deadline_at != null && (
            <label>
              Deadline <Bar label="Time to the deadline" endsAt={live.deadline_at} totalS={live.timeout_s ?? null} />
            </label>
          )}
          {live.idle_at != null && (
            <label>
              Idle limit <Bar label="Time to the idle limit" endsAt={live.idle_at} totalS={live.idle_timeout_s ?? null} />
            </label>
          )}
        </div>
      )}
      {isLive && spec !== null && (spec["stdin"] === "pipe" || spec["pty"] === true) && <InputBox runId={runId} />}
      <div class="columns">
        <section aria-label="Evidence">
          <h2>Evidence</h2>
          {timeline !== null && <TimelineView timeline={timeline} />}
        </section>
        <section aria-label="Report">
          <h2>Report</h2>
          <Facts report={found} />
          {isLive && tree !== null && tree.processes.length > 0 && <Tree tree={tree} />}
        </section>
      </div>
      <LogView key={runId} runId={runId} isLive={isLive} wakes={wakes} />
      <details>
        <summary>Report as JSON</summary>
        <pre class="json">{JSON.stringify(found, null, 2)}</pre>
      </details>
    </main>
  );
}

function Buttons({ report, spec }: { report: Report; spec: Record<string, unknown> | null }) {
  const isOver = report.status !== null;
  const isSettled = report.state === "settled" || report.state === null;
  return (
    <div class="buttons">
      <button type="button" class="danger" disabled={isOver} onClick={() => void cancelRuns([report.run_id], false)}>
        Cancel
      </button>
      <button type="button" class="danger" disabled={isSettled} onClick={() => void cancelRuns([report.run_id], true)}>
        Cancel now
      </button>
      <button type="button" disabled={isOver || report.state === "queued" || spec?.["timeout_s"] == null} onClick={() => void extend(report.run_id)}>
        Extend
      </button>
      <button type="button" onClick={() => void copyAsCommand(report.run_id)}>
        Copy as command
      </button>
    </div>
  );
}

function InputBox({ runId }: { runId: string }) {
  const text = useSignal("");
  const send = async (eof: boolean) => {
    if (await sendInput(runId, eof ? "" : `${text.value}\n`, eof)) text.value = "";
  };
  return (
    <form
      class="input"
      onSubmit={(event) => {
        event.preventDefault();
        void send(false);
      }}
    >
      <label>
        Send input
        <input value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} placeholder="a line for its stdin" />
      </label>
      <button type="submit">Send</button>
      <button type="button" onClick={() => void send(true)}>
        End of input
      </button>
    </form>
  );
}

function Facts({ report }: { report: Report }) {
  const { output, usage } = report;
  const isOver = report.state === "settled" || report.state === null;
  const cpu = usage.cpu_user_s == null ? null : (usage.cpu_user_s ?? 0) + (usage.cpu_system_s ?? 0);
  const rows: [string, preact.ComponentChildren][] = [
    ["Run", <code>{report.run_id}</code>],
    ["Outcome", report.status === null ? "not decided yet" : `${report.status}, cause ${report.cause}`],
    ["Exit", report.exit_code !== null ? `code ${report.exit_code}` : report.signal !== null ? `signal ${report.signal}` : "–"],
    ["Session", report.session === null ? "–" : <a href={link("/", new URLSearchParams({ session: report.session }))}>{plain(report.session)}</a>],
    ["Parent", report.parent === null ? "–" : <a href={runLink(report.parent)}>{plain(report.parent)}</a>],
    ["Labels", Object.keys(report.labels).length === 0 ? "–" : <Labels labels={report.labels} />],
    ["Ports", portsOf(report).join(", ") || "–"],
    ["Queued", clock(report.queued_at)],
    ["Started", clock(report.started_at)],
    ["Verdict", clock(report.verdict_at)],
    ["Settled", clock(report.settled_at)],
    ["Duration", duration(report.duration_s)],
    ["Tree", `${isOver ? (report.tree ?? "unknown") : "live"}${report.stragglers ? `, ${count(report.stragglers, "straggler")}` : ""}${report.survivors?.length ? `: ${report.survivors.join(", ")}` : ""}`],
    ["Containment", report.containment ?? "–"],
    ["Escalated", report.escalated ? "yes, SIGKILL was needed" : "no"],
    ["Output", `${size(output.stdout_bytes)} stdout, ${size(output.stderr_bytes)} stderr${output.late_bytes ? `, ${size(output.late_bytes)} of it late` : ""}${output.dropped_bytes ? `, ${size(output.dropped_bytes)} dropped` : ""}`],
    ["Used", cpu === null ? "–" : `${duration(cpu)} CPU, ${size(usage.max_rss_bytes)} memory at most`],
  ];
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Tree({ tree }: { tree: ProcessTree }) {
  const depths = new Map<number, number>();
  for (const one of tree.processes) depths.set(one.pid, (depths.get(one.parent_pid) ?? -1) + 1);
  return (
    <>
      <h2>Process tree now</h2>
      <ul class="processes">
        {tree.processes.map((one) => (
          <li key={one.pid} style={{ paddingLeft: `${Math.min(8, depths.get(one.pid) ?? 0) * 16}px` }}>
            <span class="pid">{one.pid}</span> <code title={plain(one.command)}>{plain(one.command)}</code>{" "}
            <span class="dim">
              {one.state} · {duration(one.cpu_s)} · {size(one.rss_bytes)}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
