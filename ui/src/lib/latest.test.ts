import { describe, expect, it } from "vitest";
import { createLatest } from "./latest";

/** An operation whose calls end when they are told to. */
function createControlled() {
  const started: string[] = [];
  const ends: (() => void)[] = [];
  const run = (value: string) => {
    started.push(value);
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  const endNext = async () => {
    ends.shift()?.();
    await new Promise((resolve) => setTimeout(resolve));
  };
  return { started, run, endNext };
}

describe("operations for the newest value", () => {
  it("run one at a time and leave out values that were replaced", async () => {
    const { started, run, endNext } = createControlled();
    const latest = createLatest(run);
    ["a", "b", "c"].forEach(latest.push);
    expect(started).toEqual(["a"]);
    await endNext();
    expect(started).toEqual(["a", "c"]);
    await endNext();
    latest.push("d");
    expect(started).toEqual(["a", "c", "d"]);
  });

  it("do not run for a value that was cleared", async () => {
    const { started, run, endNext } = createControlled();
    const latest = createLatest(run);
    latest.push("a");
    latest.push("b");
    latest.clear();
    await endNext();
    expect(started).toEqual(["a"]);
  });
});
