import { describe, expect, it, vi } from "vitest";
import type { LogEvent } from "../api/types";
import { EventLog, pageSize } from "./eventLog";

const makeEvent = (seq: number) => ({ seq, event_type: "task.done" }) as LogEvent;
const makeRange = (from: number, count: number) => Array.from({ length: count }, (_, index) => makeEvent(from + index));

function makeLog(lastSeq: number) {
  const frames: (() => void)[] = [];
  const readPage = vi.fn((_id: string, { after_seq = 0, limit = 0 }: { after_seq?: number; limit?: number }) =>
    Promise.resolve({ events: makeRange(after_seq + 1, Math.min(limit, lastSeq - after_seq)), nextAfterSeq: null }),
  );
  const log = new EventLog("1", lastSeq, readPage, (callback) => frames.push(callback));
  return { log, readPage, runFrames: () => frames.splice(0).forEach((frame) => frame()) };
}

describe("event log", () => {
  it("loads only the pages that are looked at, once", async () => {
    const { log, readPage } = makeLog(100_000);
    log.load(50_001, 50_010);
    log.load(50_001, 50_010);
    await Promise.resolve();
    await Promise.resolve();
    expect(readPage).toHaveBeenCalledTimes(1);
    expect(readPage).toHaveBeenCalledWith("1", { after_seq: 50_000, limit: pageSize });
  });

  it("shows live events once a frame", () => {
    const { log, runFrames } = makeLog(10);
    const listener = vi.fn();
    log.subscribe(listener);
    log.add(makeRange(11, 5));
    log.add(makeRange(16, 5));
    expect(log.length).toBe(10);
    runFrames();
    expect(log.length).toBe(20);
    expect(listener).toHaveBeenCalledTimes(1);
    expect(log.get(20)?.seq).toBe(20);
  });

  it("stays bounded", () => {
    const { log, runFrames } = makeLog(0);
    log.add(makeRange(1, 60 * pageSize));
    runFrames();
    expect(log.get(1)).toBeUndefined();
    expect(log.get(60 * pageSize)?.seq).toBe(60 * pageSize);
  });

  it("keeps a failure until it is asked to try again", async () => {
    const readPage = vi.fn(() => Promise.reject(new Error("down")));
    const log = new EventLog("1", 10, readPage);
    log.load(1, 10);
    await vi.waitFor(() => expect(log.error).toBeInstanceOf(Error));
    log.load(1, 10);
    expect(readPage).toHaveBeenCalledTimes(1);
    log.retry();
    log.load(1, 10);
    expect(readPage).toHaveBeenCalledTimes(2);
  });
});
