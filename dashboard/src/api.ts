// Requests to the daemon: JSON in and out, problems as errors, the CSRF token with every action.
import type { Login } from "./types.ts";

export class ProblemError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly remedy: string | null,
  ) {
    super(message);
  }
}

// The daemon sends the CSRF token once, at the login. Storage belongs to one origin, port included; cookies do not.
const CSRF = "holdfast-csrf";

export async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(method, path, body, { accept: "application/json" }, signal);
  return (await response.json()) as T;
}

export async function send(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> {
  if (body !== undefined) headers["content-type"] = "application/json";
  const csrf = localStorage.getItem(CSRF); // each time: another tab may have logged in again
  if (method !== "GET" && csrf !== null) headers[CSRF] = csrf;
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "same-origin",
      redirect: "error",
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ProblemError(0, "the daemon does not answer", "it may be stopped, or the network is down");
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response: Response): Promise<ProblemError> {
  let told: { detail?: string; title?: string; remedy?: string } = {};
  try {
    told = (await response.json()) as typeof told;
  } catch {
    // not an answer of the daemon: a proxy in between
  }
  const what = told.detail ?? told.title ?? `the daemon answered ${response.status}`;
  return new ProblemError(response.status, what, told.remedy ?? null);
}

/** Whether we are logged in; with the code of a link, log in first. */
export async function login(): Promise<boolean> {
  const found = /^#login=([\w-]+)$/.exec(location.hash);
  if (found !== null) history.replaceState(null, "", "/"); // the code works once: keep it out of the history
  if (found === null) return await isIn();
  try {
    const who = await ask<Login>("POST", "/v1/login", { code: found[1] });
    if (who.csrf !== null) localStorage.setItem(CSRF, who.csrf);
    return true;
  } catch (error) {
    if (!(error instanceof ProblemError) || error.status !== 401) throw error;
    return await isIn(); // the code was used before, perhaps by this browser
  }
}

async function isIn(): Promise<boolean> {
  try {
    const who = await ask<Login>("GET", "/v1/login/session");
    return who.by !== "session" || localStorage.getItem(CSRF) !== null; // without it, a session can only read
  } catch (error) {
    if (!(error instanceof ProblemError) || error.status !== 401) throw error;
    return false;
  }
}

export async function logout(): Promise<void> {
  await ask("DELETE", "/v1/login/session");
  localStorage.removeItem(CSRF);
}

export function runPath(runId: string, what = ""): string {
  return `/v1/runs/${encodeURIComponent(runId)}${what}`;
}

export function query(given: Record<string, string | number | boolean | string[] | undefined>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (Array.isArray(value)) for (const one of value) found.append(name, one);
    else if (value !== undefined && value !== "") found.set(name, String(value));
  }
  const text = found.toString();
  return text === "" ? "" : `?${text}`;
}
