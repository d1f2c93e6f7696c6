import { describe, expect, it } from "vitest";
import { summarizeResults } from "./bulk";

describe("results of an action on many runs", () => {
  it("counts what was done and what was refused", () => {
    const refused = { outcome: "refused", code: "NOT_RETRYABLE", detail: "the run did not fail" } as const;
    const summary = summarizeResults([
      { execution_id: "1", outcome: "done" },
      { execution_id: "2", ...refused },
      { execution_id: "3", ...refused },
    ]);
    expect(summary).toEqual({
      done: 1,
      refused: [{ code: "NOT_RETRYABLE", detail: "the run did not fail", count: 2 }],
    });
  });
});
