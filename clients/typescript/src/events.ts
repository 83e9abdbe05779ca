/** One event of a server-sent stream, as text. */
export interface RawEvent {
  id: string | undefined;
  type: string;
  data: string;
}

/** Decode the bytes of an event stream into events, wherever the bytes were cut. */
export class EventParser {
  /** The id for a reconnect; a stream sends one before its first event, too. */
  lastId: string | undefined;
  #decoder = new TextDecoder();
  #rest = "";
  #id: string | undefined;
  #type = "message";
  #data: string[] = [];

  feed(bytes: Uint8Array): RawEvent[] {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#line(line.replace(/\r$/, "")));
  }

  #line(line: string): RawEvent[] {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#type = value;
    else if (field === "id") this.#id = value;
    return [];
  }

  #dispatch(): RawEvent[] {
    const event = { id: this.#id, type: this.#type, data: this.#data.join("\n") };
    const isEmpty = this.#data.length === 0;
    this.lastId = this.#id ?? this.lastId;
    this.#type = "message";
    this.#data = [];
    this.#id = undefined;
    return isEmpty ? [] : [event];
  }
}
