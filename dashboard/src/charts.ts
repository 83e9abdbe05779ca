// Three charts, loaded when History is opened.
import uPlot from "uplot";
import { duration } from "./format.ts";
import type { Statistics } from "./types.ts";

const STATUSES = ["succeeded", "failed", "timed_out", "cancelled", "lost"];

export function draw(target: HTMLElement, statistics: Statistics): () => void {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const times = statistics.slices.map((one) => Date.parse(one.at) / 1000);
  const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  const seconds = { ...axis, size: 60, values: (_: uPlot, ticks: number[]) => ticks.map((one) => duration(one)) };

  // Stacked: each line is the sum of itself and the lines below it, drawn from the top down.
  const sums: number[][] = [];
  for (const status of STATUSES) {
    const below = sums.at(-1);
    sums.push(statistics.slices.map((one, place) => (one.outcomes[status] ?? 0) + (below?.[place] ?? 0)));
  }
  const bars = uPlot.paths.bars!({ size: [0.8, 40] });
  const counts = (status: string) => (_: uPlot, __: number, ___: number, place: number | null) =>
    place === null ? "–" : String(statistics.slices[place]?.outcomes[status] ?? 0);
  const charts: { title: string; data: uPlot.AlignedData; series: uPlot.Series[]; y: uPlot.Axis }[] = [
    {
      title: "Outcomes",
      data: [times, ...[...sums].reverse()] as uPlot.AlignedData,
      series: [...STATUSES].reverse().map((status) => ({
        label: status,
        fill: colour(status),
        stroke: colour(status),
        width: 0,
        paths: bars,
        points: { show: false },
        value: counts(status),
      })),
      y: { ...axis, size: 60, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000] },
    },
    lines("Duration", [
      ["p50", "succeeded", statistics.slices.map((one) => one.duration_p50_s)],
      ["p95", "timed_out", statistics.slices.map((one) => one.duration_p95_s)],
      ["p99", "failed", statistics.slices.map((one) => one.duration_p99_s)],
    ]),
    lines("Wait in the queue", [
      ["p50", "succeeded", statistics.slices.map((one) => one.queue_p50_s)],
      ["p95", "timed_out", statistics.slices.map((one) => one.queue_p95_s)],
    ]),
  ];
  function lines(title: string, parts: [string, string, (number | null)[]][]) {
    return {
      title,
      data: [times, ...parts.map(([, , values]) => values)] as uPlot.AlignedData,
      series: parts.map(([label, name, values]) => ({
        label,
        stroke: colour(name),
        width: 2,
        spanGaps: true,
        points: { show: values.filter((one) => one !== null).length < 30, size: 6 },
        value: (_: uPlot, value: number | null) => (value === null ? "–" : duration(value)),
      })),
      y: seconds,
    };
  }

  const plots = charts.map(({ title, data, series, y }) => {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = title;
    figure.append(caption);
    figure.setAttribute("aria-label", `Chart: ${title}`);
    target.append(figure);
    const plot = new uPlot(
      { width: Math.max(240, figure.clientWidth), height: 190, series: [{}, ...series], axes: [axis, y], scales: { x: { range: (_, low, high) => [low - statistics.slice_s, high + statistics.slice_s] }, y: { range: (_, __, most) => [0, Math.max(most || 0, 1e-3) * 1.05] } }, cursor: { drag: { x: false, y: false } } },
      data,
      figure,
    );
    return { plot, figure };
  });
  const observer = new ResizeObserver(() => {
    for (const { plot, figure } of plots) plot.setSize({ width: Math.max(240, figure.clientWidth), height: 190 });
  });
  observer.observe(target);
  return () => {
    observer.disconnect();
    for (const { plot, figure } of plots) {
      plot.destroy();
      figure.remove();
    }
  };
}
