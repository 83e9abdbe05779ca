import assert from "node:assert/strict";
import { test } from "node:test";

import { EventParser } from "../src/events.js";

test("events come out whole however the bytes were cut", () => {
  const text = 'retry: 1000\n: events\n\nid: 1\nevent: run.queued\ndata: {"a":"\u00e4"}\n\nevent: run.output\ndata: x\ndata: y\r\n\n\ndata: cut';
  const bytes = new TextEncoder().encode(text);
  for (let size = 1; size <= bytes.length; size++) {
    const parser = new EventParser();
    const events = [];
    for (let from = 0; from < bytes.length; from += size) events.push(...parser.feed(bytes.subarray(from, from + size)));
    assert.deepEqual(events, [
      { id: "1", type: "run.queued", data: '{"a":"\u00e4"}' },
      { id: undefined, type: "run.output", data: "x\ny" },
    ]);
  }
});

test("a stream that breaks before its first event has an id to come back with", () => {
  const parser = new EventParser();
  assert.deepEqual(parser.feed(new TextEncoder().encode("retry: 1000\n: events\nid: 41\n\n: \n\n")), []);
  assert.equal(parser.lastId, "41");
});
