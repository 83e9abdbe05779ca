import { request as httpRequest } from "node:http";

export interface Request {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array | undefined;
  signal?: AbortSignal | undefined;
}

export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: AsyncIterable<Uint8Array>;
}

/** Sends requests to a daemon. */
export type Transport = (request: Request) => Promise<Answer>;

/** The transport over the daemon's Unix socket; its permissions grant the access. */
export function overSocket(socketPath: string): Transport {
  return ({ method, path, headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const options = { socketPath, method, path, headers: { host: "localhost", ...headers }, ...(signal && { signal }) };
      const sent = httpRequest(options, (response) => {
        const flat = Object.entries(response.headers).map(([name, value]) => [name, String(value)]);
        resolve({ status: response.statusCode ?? 0, headers: Object.fromEntries(flat), body: response });
      });
      sent.on("error", reject);
      sent.end(body);
    });
}

/** The transport over TCP, with the daemon's token. */
export function overTcp(url: string, token: string): Transport {
  return async ({ method, path, headers, body, signal }) => {
    const init: RequestInit = { method, headers: { authorization: `Bearer ${token}`, ...headers } };
    if (body !== undefined) init.body = body;
    if (signal !== undefined) init.signal = signal;
    const response = await fetch(new URL(path, url), init);
    const empty = (async function* (): AsyncGenerator<Uint8Array> {})();
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers.entries()),
      body: (response.body as unknown as AsyncIterable<Uint8Array> | null) ?? empty,
    };
  };
}

/** Read a whole body. */
export async function text(answer: Answer): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of answer.body) parts.push(part);
  return Buffer.concat(parts).toString("utf8");
}
