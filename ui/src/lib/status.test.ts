// Tests of the words for where a run stands.
import { expect, test } from "vitest";
import { describePlace } from "./status";

test("a run stands at its error, or at its step and what that waits for", () => {
  expect(describePlace({ error: "X: broken", current_step: "a" })).toBe("X: broken");
  expect(describePlace({ current_step: "a", waits_for: "go" })).toBe("a, waiting for signal go");
  expect(describePlace({ current_step: "a" })).toBe("a");
  expect(describePlace({})).toBe("");
});
