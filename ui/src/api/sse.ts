// Server-sent events over fetch: a parser for the text of the stream, and a connection that reconnects with backoff,
// continues after the last event it got, and rests while the tab is hidden.
import { reportConnection } from "./connection";
import { readProblem } from "./problem";

export interface StreamMessage {
  event: string;
  id: string;
  data: string;
}

/** Returns a function that takes pieces of text and returns the messages that they complete. */
export function createParser(): (text: string) => StreamMessage[] {
  let rest = "";
  let event = "";
  let data: string[] = [];
  let id = "";
  return (text) => {
    const messages: StreamMessage[] = [];
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) messages.push({ event: event || "message", id, data: data.join("\n") });
        event = "";
        data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon === -1 ? line : line.slice(0, colon);
      const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") event = value;
      if (field === "data") data.push(value);
      if (field === "id") id = value;
    }
    return messages;
  };
}

/** How long to wait before a connection is tried again: doubles, up to 15 seconds, with jitter. */
export function backoffDelay(failures: number, random: () => number = Math.random): number {
  const delay = Math.min(15_000, 500 * 2 ** Math.max(0, failures - 1));
  return delay / 2 + (delay / 2) * random();
}

export interface StreamOptions {
  url: URL;
  lastEventId?: string;
  /** Called with all messages that arrived together. */
  onMessages: (messages: StreamMessage[]) => void;
}

/** Follows a stream until the returned function is called, or an event `end` arrives. */
export function followStream({ url, lastEventId, onMessages }: StreamOptions): () => void {
  let lastId = lastEventId ?? "";
  let failures = 0;
  let isEnded = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let abort: AbortController | undefined;

  const connect = async () => {
    const controller = new AbortController();
    abort = controller;
    try {
      const headers = { accept: "text/event-stream", ...(lastId ? { "last-event-id": lastId } : {}) };
      const response = await fetch(url, { headers, signal: controller.signal });
      if (!response.ok || !response.body) throw await readProblem(response);
      reportConnection(true);
      failures = 0;
      await readBody(response.body);
      if (!isEnded && !controller.signal.aborted) schedule(500);
    } catch (error) {
      if (controller.signal.aborted || isEnded) return;
      if (error instanceof TypeError) reportConnection(false);
      failures += 1;
      schedule(backoffDelay(failures));
    }
  };

  const readBody = async (body: ReadableStream<Uint8Array>) => {
    const parse = createParser();
    const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const messages = parse(value);
      if (messages.length === 0) continue;
      lastId = messages.at(-1)?.id || lastId;
      if (messages.some((message) => message.event === "end")) isEnded = true;
      onMessages(messages);
    }
  };

  const schedule = (delay: number) => {
    timer = setTimeout(() => void connect(), delay);
  };
  const rest = () => {
    clearTimeout(timer);
    abort?.abort();
  };
  const onVisibility = () => {
    rest();
    if (!document.hidden && !isEnded) void connect();
  };

  document.addEventListener("visibilitychange", onVisibility);
  if (!document.hidden) void connect();
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    rest();
  };
}
