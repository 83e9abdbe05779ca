import { effect, useComputed } from "@preact/signals";
import { render } from "preact";
import "./style.css";
import { logout } from "./api.ts";
import { Banner } from "./banner.tsx";
import { attempt, Dialogs } from "./dialog.tsx";
import { DoctorPage } from "./doctor.tsx";
import { count, plain } from "./format.ts";
import { HistoryPage } from "./history.tsx";
import { HostsPage } from "./hosts.tsx";
import { go, link, place } from "./router.ts";
import { RunPage } from "./run.tsx";
import { focusSearch, isWaiting, RunsPage } from "./runs.tsx";
import { SessionsPage } from "./sessions.tsx";
import { changed, connect, connection, failedToday, runs } from "./store.ts";

const PAGES: [string, string][] = [
  ["/", "Runs"],
  ["/sessions", "Sessions"],
  ["/history", "History"],
  ["/hosts", "Hosts"],
  ["/doctor", "Doctor"],
];

function App() {
  if (connection.value.state === "login") return <LoginPage />;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => skip(event)}>
        To the content
      </a>
      <header>
        <a class="brand" href="#/" aria-label="Holdfast, all runs">
          <img src="/static/icon.svg" alt="" width="22" height="22" /> Holdfast
        </a>
        <nav aria-label="Pages">
          {PAGES.map(([path, title]) => (
            <a key={path} href={link(path)} aria-current={isHere(path) ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <Counters />
        <button type="button" class="quiet" onClick={() => void leave()}>
          Log out
        </button>
      </header>
      <Banner />
      <Page />
      <Dialogs />
    </>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  const main = document.getElementById("main");
  main?.setAttribute("tabindex", "-1");
  main?.focus();
}

function isHere(path: string): boolean {
  const here = place.value.path;
  return path === "/" ? here === "/" || here.startsWith("/runs") : here.startsWith(path);
}

async function leave(): Promise<void> {
  await attempt(logout);
  location.reload();
}

function Counters() {
  const counted = useComputed(() => {
    changed.value;
    const found = { running: 0, queued: 0, stopping: 0, waiting: 0 };
    for (const run of runs.values()) {
      if (run.state === "running" || run.state === "starting") found.running++;
      else if (run.state === "queued") found.queued++;
      else if (run.state === "stopping") found.stopping++;
      if (isWaiting(run)) found.waiting++;
    }
    return found;
  }).value;
  const shown: [string, number | null, string][] = [
    ["running", counted.running, "state=running"],
    ["queued", counted.queued, "state=queued"],
    ["stopping", counted.stopping, "state=stopping"],
    ["waiting for input", counted.waiting, "waiting=1"],
    ["failed today", failedToday.value, "status=failed"],
  ];
  return (
    <ul class="counters" aria-label="Counters">
      {shown.map(([what, number, filter]) => (
        <li key={what}>
          <a href={`#/?${filter}`} class={number ? `some ${what.replaceAll(" ", "-")}` : ""}>
            <strong>{number ?? "–"}</strong> {what}
          </a>
        </li>
      ))}
    </ul>
  );
}

function Page() {
  const { path } = place.value;
  const run = /^\/runs\/(.+)$/.exec(path);
  if (run !== null) return <RunPage key={path} runId={decodeURIComponent(run[1]!)} />;
  if (path === "/") return <RunsPage />;
  if (path === "/sessions") return <SessionsPage />;
  if (path === "/history") return <HistoryPage />;
  if (path === "/hosts") return <HostsPage />;
  if (path === "/doctor") return <DoctorPage />;
  return (
    <main id="main" class="page">
      <h1>Nothing here</h1>
      <p>
        There is no page {plain(path)}. <a href="#/">All runs</a>
      </p>
    </main>
  );
}

function LoginPage() {
  return (
    <main id="main" class="login">
      <img src="/static/icon.svg" alt="" width="48" height="48" />
      <h1>Holdfast</h1>
      <p>To log in, run this on the daemon's host and open the link it prints. Each link works once.</p>
      <pre>
        <code>holdfast open</code>
      </pre>
      <p class="dim">A link that does not work was used before, or is older than a minute: make another.</p>
      <button type="button" class="primary" onClick={() => void connect()}>
        Try again
      </button>
    </main>
  );
}

const TITLES: Record<string, string> = { "/sessions": "Sessions", "/history": "History", "/hosts": "Hosts", "/doctor": "Doctor" };
effect(() => {
  changed.value;
  const { path } = place.value;
  const run = /^\/runs\/(.+)$/.exec(path);
  const known = run === null ? undefined : runs.get(decodeURIComponent(run[1]!));
  const live = [...runs.values()].filter((one) => one.state === "running").length;
  const what = run !== null ? plain(known?.name ?? run[1]!) : (TITLES[path] ?? `${count(live, "run")} running`);
  document.title = `${what} – Holdfast`;
});

document.addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input,textarea,select,dialog")) {
    if (event.key === "Escape" && target instanceof HTMLInputElement) target.blur();
    return;
  }
  if (event.key === "/") {
    event.preventDefault();
    if (document.getElementById("search") === null) go("/");
    setTimeout(focusSearch);
  } else if (event.key === "g") {
    const next = (second: KeyboardEvent) => {
      const to = { r: "/", s: "/sessions", h: "/history", d: "/doctor" }[second.key];
      if (to !== undefined) go(to);
    };
    document.addEventListener("keydown", next, { once: true });
  }
});

render(<App />, document.getElementById("app")!);
void connect();
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#login=")) void connect();
});
