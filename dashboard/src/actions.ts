// Actions on runs: ask for confirmation, do them, show the result.
import { ask, runPath } from "./api.ts";
import { askFor, attempt, tell } from "./dialog.tsx";
import { count, plain, quote } from "./format.ts";
import { take } from "./store.ts";
import type { Report, RunSpec } from "./types.ts";

export async function cancelRuns(runIds: string[], now: boolean): Promise<boolean> {
  const what = runIds.length === 1 ? `run ${runIds[0]}` : count(runIds.length, "run");
  const reason = await askFor({
    title: now ? `Cancel ${what} now?` : `Cancel ${what}?`,
    body: now
      ? "The whole tree gets SIGKILL at once: nothing is left to the command."
      : "The command is asked to end first; what is still there after its grace gets SIGKILL.",
    action: now ? "Cancel now" : "Cancel",
    danger: true,
    field: { label: "Reason (kept in the record)", value: "", placeholder: "optional" },
  });
  if (reason === null) return false;
  let failed = 0;
  // A few at a time: each answer comes when the stop is on record.
  const left = [...runIds];
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      for (let runId = left.shift(); runId !== undefined; runId = left.shift()) {
        const id = runId;
        const report = await attempt(() => ask<Report>("POST", runPath(id, "/cancel"), { reason, now }));
        if (report === undefined) failed++;
        else take(report);
      }
    }),
  );
  if (failed === 0) tell(`Asked ${what} to end`);
  return true;
}

export async function extend(runId: string): Promise<void> {
  const text = await askFor({
    title: "Extend the deadline",
    body: "How much later shall it be? At most to the run's ceiling (max_timeout).",
    action: "Extend",
    field: { label: "By how much, such as 90s, 10m or 2h", value: "10m" },
  });
  if (text === null) return;
  const seconds = secondsOf(text);
  if (seconds === null) {
    tell(`${plain(text)} is no duration`, "write 90s, 10m or 2h", true);
    return;
  }
  const report = await attempt(() => ask<Report>("POST", runPath(runId, "/extend"), { seconds }));
  if (report !== undefined) tell(`The deadline is ${text.trim()} later`);
}

/** `90s`, `10m`, `2h`; seconds without a unit. Null: not a duration, or zero. */
export function secondsOf(text: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*$/.exec(text);
  if (found === null) return null;
  const unit = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400 }[found[2] ?? "s"] ?? 1;
  const seconds = Number(found[1]) * unit;
  return seconds > 0 ? seconds : null;
}

export async function sendInput(runId: string, text: string, eof: boolean): Promise<boolean> {
  const report = await attempt(() => ask<Report>("POST", runPath(runId, "/input"), { text, eof }));
  return report !== undefined;
}

/** The command line that would start the same run again; the environment is not on record. */
export function commandLine(spec: Record<string, unknown>): string {
  const words = ["holdfast", "run"];
  const option = (flag: string, value: unknown) => {
    if (value !== undefined && value !== null && value !== "") words.push(flag, quote(String(value)));
  };
  option("--name", spec["name"]);
  option("--session", spec["session"]);
  for (const [name, value] of Object.entries((spec["labels"] as Record<string, string> | undefined) ?? {}))
    option("--label", `${name}=${value}`);
  option("--timeout", spec["timeout_s"]);
  option("--idle-timeout", spec["idle_timeout_s"]);
  option("--ladder", spec["ladder"]);
  option("--memory", spec["memory_bytes"]);
  option("--pids", spec["pids"]);
  option("--max-output", spec["max_output_bytes"]);
  if (spec["max_output_bytes"] !== null) option("--on-max-output", spec["on_max_output"]);
  option("--cpu-time", spec["cpu_time_s"]);
  option("--cwd", spec["cwd"]);
  if (spec["pty"] === true) words.push("--pty");
  return [...words, "--", ...((spec["argv"] as string[] | undefined) ?? []).map(quote)].join(" ");
}

export async function copyAsCommand(runId: string): Promise<void> {
  const found = await attempt(() => ask<RunSpec>("GET", runPath(runId, "/spec")));
  if (found === undefined) return;
  const text = commandLine(found.spec);
  try {
    await navigator.clipboard.writeText(text);
    tell("Copied", text.length > 200 ? `${text.slice(0, 200)}…` : text);
  } catch {
    await askFor({ title: "Copy as command", body: "The browser does not allow copying here.", action: "Done", field: { label: "Command", value: text } });
  }
}
