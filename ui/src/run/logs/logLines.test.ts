import { describe, expect, it } from "vitest";
import type { readLogs } from "../../api/queries";
import type { LogLine, LogParams } from "../../api/types";
import { LogReader } from "./logLines";

const makeLine = (position: number) => ({ text: `line ${position}`, position, stream: "stdout" }) as LogLine;

/** A log with lines at the positions 1 to its length, and the queries that it answered. */
function makeLog(length: number) {
  const lines = Array.from({ length }, (_, index) => makeLine(index + 1));
  const queries: LogParams[] = [];
  const read: typeof readLogs = (_id, query) => {
    queries.push(query);
    const { after, before, tail, limit = 1000 } = query;
    if (after !== undefined) {
      const page = lines.filter((line) => line.position > after).slice(0, limit);
      return Promise.resolve({ lines: page, nextAfter: page.at(-1)?.position ?? after, hasEarlier: after > 0 });
    }
    const earlier = lines.filter((line) => before === undefined || line.position < before);
    const page = earlier.slice(-(tail ?? limit));
    const nextAfter = page.at(-1)?.position ?? 0;
    return Promise.resolve({ lines: page, nextAfter, hasEarlier: page.length < earlier.length });
  };
  return { lines, queries, read };
}

const positions = (reader: LogReader) => {
  const { lines } = reader.getState();
  return [lines[0]?.position, lines.at(-1)?.position, lines.length];
};

describe("the reader of a log", () => {
  it("starts with the last lines, and continues in both directions", async () => {
    const { lines, queries, read } = makeLog(2500);
    const reader = new LogReader("1", { step: "a" }, read);
    await reader.open();
    expect(positions(reader)).toEqual([1501, 2500, 1000]);
    lines.push(makeLine(2501));
    await reader.readLater();
    await reader.readEarlier();
    await reader.readEarlier();
    expect(positions(reader)).toEqual([1, 2501, 2501]);
    expect(reader.getState().hasEarlier).toBe(false);
    expect(queries.every((query) => query.step === "a")).toBe(true);
  });

  it("opens at a position without reading what is far away", async () => {
    const { queries, read } = makeLog(9000);
    const reader = new LogReader("1", {}, read);
    await reader.open(4000);
    expect(positions(reader)).toEqual([3001, 5000, 2000]);
    expect(reader.getState()).toMatchObject({ hasEarlier: true, hasLater: true });
    expect(queries).toHaveLength(2);
  });

  it("keeps a bounded number of lines", async () => {
    const { read } = makeLog(5000);
    const reader = new LogReader("1", {}, read, 1500);
    await reader.open();
    await reader.readEarlier();
    expect(positions(reader)).toEqual([3001, 4500, 1500]);
    await reader.readLater();
    expect(positions(reader)).toEqual([3501, 5000, 1500]);
    expect(reader.getState().hasEarlier).toBe(true);
  });

  it("keeps the error of a read, and recovers", async () => {
    const { read } = makeLog(3);
    let isDown = true;
    const reader = new LogReader("1", {}, (...call) => (isDown ? Promise.reject(new Error("down")) : read(...call)));
    await reader.open();
    expect(reader.getState().error).toBeInstanceOf(Error);
    isDown = false;
    await reader.readLater();
    expect(reader.getState().error).toBeNull();
    expect(positions(reader)).toEqual([1, 3, 3]);
  });
});
