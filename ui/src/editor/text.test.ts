import { describe, expect, it } from "vitest";
import { findStepAt } from "./text";

describe("the step at a line", () => {
  const steps = [
    { step: "a", line: 10 },
    { step: "b", line: 20 },
  ];

  it("is the last one that begins before it", () => {
    expect(findStepAt(steps, 10)).toBe("a");
    expect(findStepAt(steps, 19)).toBe("a");
    expect(findStepAt(steps, 99)).toBe("b");
  });

  it("is none before the first step", () => {
    expect(findStepAt(steps, 9)).toBeUndefined();
  });
});
