import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";

/** Whether there is a process of this number that is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The numbers in the first line that begins with `ready`. */
export async function ready(stream: Readable): Promise<number[]> {
  let seen = "";
  for await (const data of stream) {
    seen += String(data);
    const line = /^ready(.*)\n/m.exec(seen);
    if (line !== null) return (line[1] ?? "").trim().split(/\s+/).filter(Boolean).map(Number);
  }
  throw new assert.AssertionError({ message: `ended before it was ready: ${seen}` });
}

/** The same for a stream that goes on being used. */
export function readyOn(stream: Readable): Promise<number[]> {
  return new Promise((resolve, reject) => {
    let seen = "";
    stream.on("data", (data: Buffer) => {
      seen += String(data);
      const line = /^ready(.*)\n/m.exec(seen);
      if (line !== null) resolve((line[1] ?? "").trim().split(/\s+/).filter(Boolean).map(Number));
    });
    stream.once("end", () => reject(new Error(`ended before it was ready: ${seen}`)));
  });
}

export async function withDirectory(use: (path: string) => Promise<void>): Promise<void> {
  const path = mkdtempSync(join(tmpdir(), "holdfast-ts-"));
  try {
    await use(path);
  } finally {
    rmSync(path, { recursive: true });
  }
}

export function sh(script: string): [string, string[]] {
  return ["sh", ["-c", script]];
}
