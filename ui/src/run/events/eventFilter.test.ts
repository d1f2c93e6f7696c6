import { describe, expect, it } from "vitest";
import { findEventFilter, readTypes, withTypes } from "./eventFilter";

describe("the filter of events", () => {
  it("is absent if every event is shown", () => {
    expect(findEventFilter({ step: "load", at: 4 }, 4)).toBeNull();
  });

  it("has the types, the selection and the cursor", () => {
    const view = { type: "task.done,task.failed", from: "selection", step: "load", iteration: 7 } as const;
    expect(findEventFilter(view, 90)).toEqual({
      type: "task.done,task.failed",
      step: "load",
      iteration: 7,
      until_seq: 90,
    });
    expect(findEventFilter({ type: "task.done", step: "load" }, undefined)).toEqual({ type: "task.done" });
  });

  it("changes the types in the view", () => {
    const view = withTypes({ tab: "events", seq: 3 }, ["task.done", "task.failed"]);
    expect(view).toEqual({ tab: "events", type: "task.done,task.failed" });
    expect(readTypes(view)).toEqual(["task.done", "task.failed"]);
    expect(withTypes(view, [])).toEqual({ tab: "events" });
  });
});
