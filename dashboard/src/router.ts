// The place in the page: everything is behind `#`, so a link is a page with its filters, and the server has one page.
import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
window.addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const place = computed(() => {
  const text = hash.value.startsWith("#login=") ? "" : hash.value.replace(/^#/, ""); // api.ts handles the login code
  const [path = "/", search = ""] = text.split("?", 2) as [string?, string?];
  return { path: path === "" ? "/" : path, parameters: new URLSearchParams(search) };
});

export function link(path: string, parameters?: URLSearchParams): string {
  const text = parameters?.toString() ?? "";
  return text === "" ? `#${path}` : `#${path}?${text}`;
}

/** Change parameters of this page; typing in a filter adds nothing to the history. */
export function setParameters(changes: Record<string, string | null>): void {
  const next = new URLSearchParams(place.value.parameters);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  history.replaceState(null, "", link(place.value.path, next));
  hash.value = location.hash;
}

export function go(path: string): void {
  location.hash = path;
}

export function runLink(runId: string): string {
  return link(`/runs/${encodeURIComponent(runId)}`);
}
