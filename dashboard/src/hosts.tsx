// The hosts on which runs start: their load, their leases, and what is where.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask } from "./api.ts";
import { attempt } from "./dialog.tsx";
import { plain } from "./format.ts";
import { Empty } from "./parts.tsx";
import { runLink } from "./router.ts";
import { connection, runs, touched } from "./store.ts";
import type { Host, HostList } from "./types.ts";

const MOST_RUNS = 50;

export function HostsPage() {
  const found = useSignal<HostList | null>(null);
  const isOpen = connection.value.state === "open";
  useEffect(() => {
    const look = async () => {
      const list = await attempt(() => ask<HostList>("GET", "/v1/hosts"));
      if (list !== undefined) found.value = list;
    };
    const wait = setTimeout(() => {
      if (isOpen) void look();
    }, 100);
    return () => clearTimeout(wait);
  }, [touched.value, isOpen]);
  return (
    <main id="main" class="page">
      <h1>Hosts</h1>
      {found.value === null ? (
        <p class="dim">Loading…</p>
      ) : found.value.hosts.length === 0 ? (
        <Empty>The cluster has no live node.</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Hosts">
          <table>
            <thead>
              <tr>
                <th scope="col">Host</th>
                <th scope="col">State</th>
                <th scope="col" class="right">Runs</th>
                <th scope="col">Resources</th>
                <th scope="col">Lease</th>
                <th scope="col">Runs of this daemon</th>
              </tr>
            </thead>
            <tbody>
              {found.value.hosts.map((one) => (
                <HostRow key={one.node_id ?? one.host} host={one} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </main>
  );
}

function HostRow({ host }: { host: Host }) {
  const isAlive = host.state === "alive";
  const lease = host.lease_s == null ? "–" : `${Math.round(host.lease_left_s ?? 0)} of ${host.lease_s} s`;
  const resources = Object.entries(host.resources).filter(([name]) => name === "CPU" || name === "GPU" || !name.includes("memory"));
  return (
    <tr>
      <td>
        {plain(host.host)} <span class="dim">{plain((host.node_id ?? "").slice(0, 12))}</span>
      </td>
      <td>
        <span class={`pill ${isAlive ? "live running" : "failed"}`}>{host.state}</span> <span class="dim">{plain(host.problem ?? "")}</span>
      </td>
      <td class="right">
        {host.live ?? "–"}
        {host.slots == null ? "" : ` / ${host.slots}`}
      </td>
      <td>{resources.map(([name, amount]) => `${amount} ${plain(name)}`).join(", ")}</td>
      <td>{lease}</td>
      <td>
        {host.runs.slice(0, MOST_RUNS).map((runId) => (
          <a key={runId} href={runLink(runId)}>
            {plain(runs.get(runId)?.name ?? runId)}{" "}
          </a>
        ))}
        {host.runs.length > MOST_RUNS && <span class="dim">and {host.runs.length - MOST_RUNS} more</span>}
      </td>
    </tr>
  );
}
