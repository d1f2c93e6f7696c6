import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { backoffDelay, createParser, followStream, type StreamMessage } from "./sse";

describe("parser of server-sent events", () => {
  it("joins pieces, and ignores comments", () => {
    const parse = createParser();
    expect(parse(": keep\nid: 4\nevent: task.do")).toEqual([]);
    expect(parse('ne\ndata: {"a":1}\n')).toEqual([]);
    expect(parse("\n")).toEqual([{ event: "task.done", id: "4", data: '{"a":1}' }]);
  });

  it("joins data lines, accepts CRLF and a value without a space", () => {
    const parse = createParser();
    expect(parse("data:one\r\ndata: two\r\n\r\n")).toEqual([{ event: "message", id: "", data: "one\ntwo" }]);
  });

  it("keeps the ID for later messages, and drops messages without data", () => {
    const parse = createParser();
    expect(parse("id: 9\ndata: a\n\nevent: x\n\ndata: b\n\n")).toEqual([
      { event: "message", id: "9", data: "a" },
      { event: "message", id: "9", data: "b" },
    ]);
  });
});

describe("backoff", () => {
  it("doubles up to 15 seconds, with jitter", () => {
    expect(backoffDelay(1, () => 1)).toBe(500);
    expect(backoffDelay(3, () => 1)).toBe(2000);
    expect(backoffDelay(30, () => 1)).toBe(15_000);
    expect(backoffDelay(3, () => 0)).toBe(1000);
  });
});

describe("following a stream", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("reconnects after the last event, and stops at the end", async () => {
    const bodies = ["id: 4\nevent: a\ndata: {}\n\n", "id: 5\nevent: end\ndata: {}\n\n"];
    const requests: (string | null)[] = [];
    vi.stubGlobal(
      "fetch",
      vi.fn((_url: URL, options: RequestInit) => {
        requests.push(new Headers(options.headers).get("last-event-id"));
        return Promise.resolve(new Response(bodies[requests.length - 1]));
      }),
    );
    const messages: StreamMessage[] = [];
    followStream({
      url: new URL("http://server/stream"),
      lastEventId: "3",
      onMessages: (batch) => messages.push(...batch),
    });
    await vi.advanceTimersByTimeAsync(30_000);
    expect(requests).toEqual(["3", "4"]);
    expect(messages.map((message) => message.event)).toEqual(["a", "end"]);
  });

  it("tries again after a failure, until it is stopped", async () => {
    const fetchMock = vi.fn(() => Promise.reject(new TypeError("offline")));
    vi.stubGlobal("fetch", fetchMock);
    const stop = followStream({ url: new URL("http://server/stream"), onMessages: () => undefined });
    await vi.advanceTimersByTimeAsync(3000);
    const tries = fetchMock.mock.calls.length;
    expect(tries).toBeGreaterThan(2);
    stop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(fetchMock.mock.calls.length).toBe(tries);
  });
});
