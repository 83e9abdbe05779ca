// The log of a run. The page loads only the visible ranges, so the size of the log does not matter.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Span } from "./ansi.ts";
import { ask, query, runPath, send } from "./api.ts";
import { attempt } from "./dialog.tsx";
import { count, size } from "./format.ts";
import { Assembler, framesOf } from "./lines.ts";
import type { Line } from "./lines.ts";
import type { Match, Matches } from "./types.ts";

const PIECE = 192 << 10;
const MOST_LINES = 3_000; // in the page at once: a piece of output can have many short lines
const BEFORE = 4 << 10; // bytes shown before the target of a jump: never more lines than are kept
const MOST_MATCHES = 2_000;
const NDJSON = { accept: "application/x-ndjson" };

class Log {
  readonly lines = signal<Line[]>([]);
  readonly begin = signal(0);
  readonly end = signal(0);
  readonly total = signal(0);
  readonly busy = signal(false);
  readonly isFollowing = signal(false);
  readonly matches = signal<Match[] | null>(null);
  readonly searching = signal(false);
  private following: AbortController | null = null;
  private looking: AbortController | null = null;
  private tail: Assembler | null = null;

  constructor(readonly runId: string) {}

  private async load(offset: number, limit: number): Promise<{ made: Assembler; begin: number; end: number }> {
    const response = await send("GET", runPath(this.runId, `/output${query({ late: true, offset, limit })}`), undefined, { ...NDJSON });
    const begin = Number(response.headers.get("holdfast-offset") ?? 0);
    const made = new Assembler(begin);
    if (response.body !== null) for await (const frames of framesOf(response.body)) for (const frame of frames) made.take(frame);
    return { made, begin, end: made.end };
  }

  async measure(): Promise<void> {
    const response = await send("HEAD", runPath(this.runId, `/output${query({ late: true })}`), undefined, {});
    this.total.value = Math.max(this.total.value, Number(response.headers.get("holdfast-next-offset") ?? 0));
  }

  /** Show the log around this offset; a negative one counts from the end. */
  async show(offset: number): Promise<void> {
    this.unfollow();
    this.busy.value = true;
    try {
      await this.measure();
      const from = offset < 0 ? Math.max(0, this.total.value - PIECE) : Math.max(0, Math.min(offset, this.total.value));
      const { made, begin, end } = await this.load(from, PIECE);
      this.tail = made;
      this.lines.value = [...made.lines];
      this.begin.value = begin;
      this.end.value = end;
      this.trim(offset < 0);
    } finally {
      this.busy.value = false;
    }
  }

  async before(): Promise<boolean> {
    if (this.busy.value || this.begin.value <= 0) return false;
    this.busy.value = true;
    try {
      const from = Math.max(0, this.begin.value - PIECE);
      const { made } = await this.load(from, this.begin.value - from);
      const [first, ...rest] = this.lines.value;
      const last = made.lines.at(-1);
      // Put a line together again that was cut at the beginning of the window.
      if (first !== undefined && last?.open && last.stream === first.stream && first.offset === this.begin.value) {
        this.lines.value = [...made.lines.slice(0, -1), { ...first, offset: last.offset, text: last.text + first.text, spans: [...last.spans, ...first.spans] }, ...rest];
      } else this.lines.value = [...made.lines, ...this.lines.value];
      this.begin.value = from;
      this.trim(false);
      return true;
    } finally {
      this.busy.value = false;
    }
  }

  async after(): Promise<void> {
    if (this.busy.value || this.isFollowing.value || this.end.value >= this.total.value || this.tail === null) return;
    this.busy.value = true;
    try {
      const response = await send("GET", runPath(this.runId, `/output${query({ late: true, offset: this.end.value, limit: PIECE })}`), undefined, { ...NDJSON });
      if (response.body !== null) for await (const frames of framesOf(response.body)) this.append(frames.map((frame) => frame));
      this.trim(true);
    } finally {
      this.busy.value = false;
    }
  }

  /** Follow the log from its end; stops by itself when the run is settled. */
  async follow(): Promise<void> {
    if (this.isFollowing.value) return;
    if (this.end.value < this.total.value || this.tail === null) await this.show(-1);
    this.isFollowing.value = true;
    const control = new AbortController();
    this.following = control;
    try {
      const response = await send("GET", runPath(this.runId, `/output${query({ late: true, offset: this.end.value, follow: true })}`), undefined, { ...NDJSON }, control.signal);
      if (response.body !== null)
        for await (const frames of framesOf(response.body)) {
          if (control.signal.aborted) return;
          this.append(frames);
          this.trim(true);
        }
    } catch (error) {
      if (!control.signal.aborted) throw error;
    } finally {
      if (this.following === control) {
        this.following = null;
        this.isFollowing.value = false;
      }
    }
  }

  unfollow(): void {
    this.following?.abort();
    this.following = null;
    this.isFollowing.value = false;
  }

  private append(frames: Parameters<Assembler["take"]>[0][]): void {
    const made = this.tail!;
    const known = made.lines.length;
    for (const frame of frames) made.take(frame);
    this.end.value = made.end;
    this.total.value = Math.max(this.total.value, made.end);
    this.lines.value = [...this.lines.value, ...made.lines.slice(known)];
    made.lines.splice(0, Math.max(0, made.lines.length - 10));
  }

  private trim(fromStart: boolean): void {
    const lines = this.lines.value;
    if (lines.length <= MOST_LINES) return;
    if (fromStart) {
      this.lines.value = lines.slice(-MOST_LINES);
      this.begin.value = this.lines.value[0]!.offset;
    } else {
      this.lines.value = lines.slice(0, MOST_LINES);
      this.end.value = lines[MOST_LINES]!.offset;
      this.tail = new Assembler(this.end.value);
    }
  }

  async search(text: string): Promise<void> {
    this.looking?.abort();
    if (text === "") {
      this.matches.value = null;
      return;
    }
    const control = new AbortController();
    this.looking = control;
    this.searching.value = true;
    this.matches.value = [];
    let skip: number | null = 0;
    try {
      while (skip !== null && (this.matches.value?.length ?? 0) < MOST_MATCHES) {
        const page: Matches = await ask("GET", `/v1/search${query({ q: text, run_id: this.runId, limit: 500, skip })}`, undefined, control.signal);
        if (control.signal.aborted) return;
        const before: Match[] = this.matches.value ?? [];
        const known = new Set(before.map((one) => one.offset));
        this.matches.value = [...before, ...page.matches.filter((one) => !known.has(one.offset))];
        skip = page.skip ?? null;
      }
    } catch (error) {
      if (!control.signal.aborted) throw error;
    } finally {
      if (this.looking === control) this.searching.value = false;
    }
  }

  close(): void {
    this.unfollow();
    this.looking?.abort();
  }
}

export function LogView({ runId, isLive, wakes }: { runId: string; isLive: boolean; wakes: number }) {
  const log = useMemo(() => new Log(runId), [runId]);
  const box = useRef<HTMLDivElement>(null);
  const text = useSignal("");
  const only = useSignal(false);
  const stamps = useSignal(false);
  const wraps = useSignal(true);
  const at = useSignal(-1);
  const target = useSignal<number | null>(null);
  const sticks = useSignal(true);

  useEffect(() => {
    void attempt(async () => {
      await log.show(-1);
      if (isLive) await log.follow();
    });
    return () => log.close();
  }, [log]);
  useEffect(() => {
    // The daemon came back, or the run went on: continue following.
    if (isLive && sticks.value && !log.isFollowing.value && log.end.value > 0) void attempt(() => log.follow());
    else if (!isLive) void attempt(() => log.measure().then(() => log.after()));
  }, [wakes, isLive]);
  useEffect(() => {
    const wait = setTimeout(() => {
      at.value = -1;
      void attempt(() => log.search(text.value));
    }, 200);
    return () => clearTimeout(wait);
  }, [text.value]);
  useEffect(() => {
    const view = box.current;
    if (view === null) return;
    if (target.value !== null) {
      const line = view.querySelector<HTMLElement>(`[data-offset="${target.value}"]`);
      if (line !== null) {
        line.scrollIntoView({ block: "center" });
        target.value = null;
      }
    } else if (sticks.value && !only.value) view.scrollTop = view.scrollHeight;
  }, [log.lines.value, target.value, sticks.value]);

  const jump = async (offset: number) => {
    sticks.value = false;
    only.value = false;
    if (offset < log.begin.value || offset >= log.end.value) await attempt(() => log.show(Math.max(0, offset - BEFORE)));
    target.value = offset;
  };
  const step = (by: number) => {
    const found = log.matches.value ?? [];
    if (found.length === 0) return;
    at.value = (at.value + by + found.length) % found.length;
    void jump(found[at.value]!.offset);
  };
  const onScroll = () => {
    const view = box.current!;
    const fromEnd = view.scrollHeight - view.scrollTop - view.clientHeight;
    sticks.value = fromEnd < 30 && log.end.value >= log.total.value;
    if (only.value) return;
    if (view.scrollTop < 300 && log.begin.value > 0) {
      const height = view.scrollHeight;
      void attempt(() => log.before()).then((done) => {
        if (done) requestAnimationFrame(() => (view.scrollTop += view.scrollHeight - height));
      });
    } else if (fromEnd < 300) void attempt(() => log.after());
  };
  const matches = log.matches.value;
  const current = at.value >= 0 ? matches?.[at.value]?.offset : undefined;

  return (
    <section class="log" aria-label="Log">
      <div class="toolbar">
        <h2>Log</h2>
        <span class="dim">{size(log.total.value)}</span>
        <input
          type="search"
          aria-label="Search this log"
          placeholder="Search…"
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
          }}
        />
        {matches !== null && (
          <>
            <span role="status" class="dim found">
              {log.searching.value && "… "}
              {at.value >= 0 ? `${at.value + 1} of ` : ""}
              {matches.length >= MOST_MATCHES ? `more than ${MOST_MATCHES} lines` : count(matches.length, "line")}
            </span>
            <button type="button" aria-label="Previous match" disabled={matches.length === 0} onClick={() => step(-1)}>
              ↑
            </button>
            <button type="button" aria-label="Next match" disabled={matches.length === 0} onClick={() => step(1)}>
              ↓
            </button>
          </>
        )}
        <label>
          <input type="checkbox" checked={only.value} onChange={(event) => (only.value = event.currentTarget.checked)} /> hide other lines
        </label>
        <label>
          <input type="checkbox" checked={stamps.value} onChange={(event) => (stamps.value = event.currentTarget.checked)} /> times
        </label>
        <label>
          <input type="checkbox" checked={wraps.value} onChange={(event) => (wraps.value = event.currentTarget.checked)} /> wrap
        </label>
        <span class="grow" />
        <label title="Stay at the end as output comes">
          <input
            type="checkbox"
            checked={sticks.value}
            onChange={(event) => {
              sticks.value = event.currentTarget.checked;
              if (sticks.value) void attempt(() => (isLive ? log.follow() : log.show(-1)));
            }}
          />{" "}
          follow
        </label>
        <button type="button" onClick={() => void jump(0)}>
          Start
        </button>
        <a class="button" href={runPath(runId, "/output?late=true")} download={`${runId}.log`}>
          Download
        </a>
      </div>
      {log.total.value > PIECE && !only.value && (
        <input
          class="seek"
          type="range"
          aria-label="Place in the log"
          aria-valuetext={`${size(log.begin.value)} of ${size(log.total.value)}`}
          min={0}
          max={log.total.value}
          value={log.begin.value}
          onChange={(event) => {
            sticks.value = false;
            void attempt(() => log.show(Number(event.currentTarget.value))).then(() => box.current?.scrollTo({ top: 310 }));
          }}
        />
      )}
      <div class={`lines${wraps.value ? " wrap" : ""}`} ref={box} tabIndex={0} role="log" aria-live="off" aria-label="Output" onScroll={onScroll}>
        {only.value && matches !== null
          ? matches.map((one) => (
              <div key={one.offset} class={kind(one)} data-offset={one.offset}>
                <Stamp shown={stamps.value} at={one.at ?? null} />
                <button type="button" class="quiet goto" aria-label="Show it in its place" onClick={() => void jump(one.offset)}>
                  ↦
                </button>
                <Marked text={one.line} wanted={text.value} />
              </div>
            ))
          : log.lines.value.map((line) => (
              <LineView key={`${line.offset}${line.stream}`} line={line} text={line.text} stamp={stamps.value} wanted={text.value} current={line.offset === current} />
            ))}
        {log.lines.value.length === 0 && !log.busy.value && <p class="empty">{isLive ? "No output yet." : "It wrote nothing."}</p>}
      </div>
    </section>
  );
}

function kind(one: { stream: string; late: boolean }, current = false): string {
  return `line ${one.stream}${one.late ? " late" : ""}${current ? " current" : ""}`;
}

function Stamp({ shown, at }: { shown: boolean; at: string | null }) {
  return shown ? <time dateTime={at ?? ""}>{at === null ? "" : at.slice(11, 23)}</time> : null;
}

function LineView({ line, stamp, wanted, current }: { line: Line; text: string; stamp: boolean; wanted: string; current: boolean }) {
  const label = line.late ? `${line.stream}, late` : line.stream;
  return (
    <div class={kind(line, current)} data-offset={line.offset} title={line.late ? "after the verdict: no part of the result" : undefined}>
      <Stamp shown={stamp} at={line.at} />
      {(line.stream === "stderr" || line.late) && <span class="sr">{label}: </span>}
      {line.spans.map((span, place) => (
        <Piece key={place} span={span} wanted={wanted} />
      ))}
    </div>
  );
}

function Piece({ span, wanted }: { span: Span; wanted: string }) {
  const { style } = span;
  const fg = style.inverse ? (style.bg ?? "page") : style.fg;
  const bg = style.inverse ? (style.fg ?? "ink") : style.bg;
  if (fg === undefined && bg === undefined && Object.keys(style).length === 0) return <Marked text={span.text} wanted={wanted} />;
  const names = [
    fg !== undefined && !fg.startsWith("#") && `f-${fg}`,
    bg !== undefined && !bg.startsWith("#") && `b-${bg}`,
    style.bold && "bold",
    style.faint && "faint",
    style.italic && "italic",
    style.underline && "underline",
    style.struck && "struck",
  ].filter(Boolean);
  const colours = { color: fg?.startsWith("#") ? fg : undefined, backgroundColor: bg?.startsWith("#") ? bg : undefined };
  return (
    <span class={names.join(" ")} style={colours}>
      <Marked text={span.text} wanted={wanted} />
    </span>
  );
}

function Marked({ text, wanted }: { text: string; wanted: string }) {
  if (wanted === "") return <>{text}</>;
  const low = text.toLowerCase();
  const search = wanted.toLowerCase();
  const parts: preact.ComponentChild[] = [];
  let last = 0;
  for (let at = low.indexOf(search); at >= 0 && low.length === text.length; at = low.indexOf(search, at + search.length)) {
    parts.push(text.slice(last, at), <mark key={at}>{text.slice(at, at + search.length)}</mark>);
    last = at + search.length;
  }
  return (
    <>
      {parts}
      {text.slice(last)}
    </>
  );
}
