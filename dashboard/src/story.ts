// The data of the page of one run, and when to load it again: after an event, when the numbers show a change, and
// when a fact is due that has no event. New output is taken from the numbers as they come.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { secondsOf } from "./actions.ts";
import { ask, ProblemError, runPath } from "./api.ts";
import { changed, connection, daemonTime, now, numbers, runs, take, touched } from "./store.ts";
import type { Activity, ProcessTree, Report, RunNow, RunSpec, Timeline } from "./types.ts";

type Spec = Record<string, unknown>;
/** The facts as the daemon told them, and the time of that by its clock. */
type Told = Timeline & { askedAt: number };
export type Story = {
  report: Report | null;
  timeline: Timeline | null;
  tree: ProcessTree | null;
  spec: Spec | null;
  problem: ProblemError | null;
  live: RunNow | undefined;
  /** Changes after each event of this run, and with each new connection. */
  wakes: number;
};

const MOST_GROWN = 120; // pieces of output drawn from numbers; after this many the daemon is asked to sum them up
const MARGIN_MS = 200; // the guard writes a due fact a little later
const LONGEST_MS = 2 ** 31 - 1; // a browser's timer treats a longer time as zero

export function useStory(runId: string): Story {
  const report = useSignal<Report | null>(null);
  const told = useSignal<Told | null>(null);
  const grown = useSignal<Activity[]>([]);
  const tree = useSignal<ProcessTree | null>(null);
  const spec = useSignal<Spec | null>(null);
  const problem = useSignal<ProblemError | null>(null);
  const events = useSignal(touched.peek().count);
  const asked = useRef(0);
  changed.value;
  now.value;

  const look = async () => {
    const mine = ++asked.current; // ignore an answer that a later one has overtaken
    try {
      const [found, facts] = await Promise.all([ask<Report>("GET", runPath(runId)), ask<Timeline>("GET", runPath(runId, "/timeline"))]);
      if (mine !== asked.current) return;
      report.value = found;
      told.value = { ...facts, askedAt: daemonTime() };
      grown.value = [];
      take(found);
      if (spec.value === null) spec.value = (await ask<RunSpec>("GET", runPath(runId, "/spec"))).spec;
      problem.value = null;
    } catch (error) {
      if (error instanceof ProblemError && error.status !== 0) problem.value = error;
    }
  };

  useSignalEffect(() => {
    if (touched.value.runId === runId) events.value = touched.value.count;
  });
  const live = numbers.get(runId);
  const isOpen = connection.value.state === "open";
  const isDecided = report.value !== null && report.value.status !== null;
  // While the run stops, every process that exits can be a fact.
  const looksLike = `${runs.get(runId)?.state} ${live?.deadline_at} ${isDecided ? live?.processes : ""}`;
  useEffect(() => {
    if (isOpen) void look();
  }, [events.value, looksLike, isOpen]);

  const due = told.value === null || live === undefined ? null : nextDue(told.value, live, spec.value, isDecided);
  useEffect(() => {
    if (due === null || !isOpen) return;
    const left = due - daemonTime();
    const timer = setTimeout(() => void look(), left < 0 ? 1000 : Math.min(LONGEST_MS, left + MARGIN_MS));
    return () => clearTimeout(timer);
  }, [told.value, due, isOpen]);

  useEffect(() => {
    if (live === undefined || told.value === null || told.value.now_s == null) return;
    const known = [...told.value.activity, ...grown.value].reduce((sum, one) => sum + one.bytes, 0);
    if (live.output_bytes <= known) return;
    if (grown.value.length >= MOST_GROWN) void look();
    else grown.value = [...grown.value, { at_s: reached(told.value), bytes: live.output_bytes - known, late: isDecided }];
  }, [live]);

  // Processes without activity are the same as before; so is their picture.
  const isBusy = (live?.cpu_percent ?? 0) > 0;
  useEffect(() => {
    if (live === undefined) {
      tree.value = null;
      return;
    }
    ask<ProcessTree>("GET", runPath(runId, "/processes")).then(
      (found) => (tree.value = found),
      () => undefined,
    );
  }, [isBusy ? live : null, live === undefined, live?.processes, live?.rss_bytes, live?.waiting_for_input, live?.state]);

  const facts = told.value;
  const isLive = facts !== null && facts.now_s != null;
  const timeline = isLive ? { ...facts, now_s: reached(facts), activity: [...facts.activity, ...grown.value] } : facts;
  return {
    report: report.value,
    timeline,
    tree: tree.value,
    spec: spec.value,
    problem: problem.value,
    live,
    wakes: events.value + (isOpen ? 0.5 : 0),
  };
}

/** The present position, in seconds since the beginning of the record. */
function reached(told: Told): number {
  return (told.now_s ?? 0) + Math.max(0, daemonTime() - told.askedAt) / 1000;
}

/** The time of the next fact that has no event: the warning, or the next rung of the ladder. */
function nextDue(told: Told, live: RunNow, spec: Spec | null, isDecided: boolean): number | null {
  if (spec === null || told.now_s == null) return null;
  const facts = told.moments.map((one) => one.fact);
  if (!isDecided) {
    const before = spec["warn_before_s"];
    if (typeof before !== "number" || live.deadline_at === null) return null;
    if (facts.lastIndexOf("warned") > facts.lastIndexOf("extended")) return null;
    return Date.parse(live.deadline_at) - before * 1000;
  }
  if (facts.includes("exited")) return null;
  const sent = told.moments.filter((one) => one.fact === "signalled");
  if (sent.length === 0) return told.askedAt; // the verdict is told before the ladder begins
  const wait = secondsOf(String(spec["ladder"] ?? "").split(",")[sent.length - 1]?.split(":")[1] ?? "");
  const last = sent.at(-1)?.at_s;
  return wait === null || last == null ? null : told.askedAt - (told.now_s - last - wait) * 1000;
}
