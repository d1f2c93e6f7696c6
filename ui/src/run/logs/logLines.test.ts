import { describe, expect, it } from "vitest";
import type { LogLine } from "../../api/types";
import { appendLines, LogReader } from "./logLines";

const makeLine = (text: string) => ({ text, stream: "stdout" }) as LogLine;

describe("log lines", () => {
  it("are numbered, and the oldest are dropped", () => {
    const lines = appendLines(appendLines([], [makeLine("a"), makeLine("b")], 3), [makeLine("c"), makeLine("d")], 3);
    expect(lines.map((line) => `${line.number}${line.text}`)).toEqual(["2b", "3c", "4d"]);
  });

  it("are read to the end, and on from there", async () => {
    const stored = ["a", "b", "c"].map(makeLine);
    const asked: number[] = [];
    const reader = new LogReader("1", {}, (_id, { after = 0 }) => {
      asked.push(after);
      const lines = stored.slice(after, after + 2);
      return Promise.resolve({ lines, nextAfter: after + lines.length });
    });
    await reader.readOn();
    expect(reader.getState().lines.map((line) => line.text)).toEqual(["a", "b", "c"]);
    stored.push(makeLine("d"));
    await reader.readOn();
    expect(reader.getState().lines).toHaveLength(4);
    expect(asked).toEqual([0, 2, 3, 3, 4]);
  });

  it("keep the error of a read", async () => {
    const reader = new LogReader("1", {}, () => Promise.reject(new Error("down")));
    await reader.readOn();
    expect(reader.getState().error).toBeInstanceOf(Error);
  });
});
