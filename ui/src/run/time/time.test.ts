import { describe, expect, it } from "vitest";
import type { FailureGroup } from "../../api/types";
import { findCursor, withCursor } from "./cursor";
import { findFailure, listFailureSeqs, placeMarks } from "./marks";

const makeGroup = (...seqs: number[]) => ({ seqs }) as FailureGroup;

describe("the cursor", () => {
  it("is in the log, and absent at its end", () => {
    expect([findCursor(undefined, 9), findCursor(9, 9), findCursor(99, 9)]).toEqual([undefined, undefined, undefined]);
    expect([findCursor(8, 9), findCursor(0, 9)]).toEqual([8, 1]);
    expect(withCursor({ tab: "logs", at: 4 }, 9, 9)).toEqual({ tab: "logs" });
    expect(withCursor({ tab: "logs" }, 5, 9)).toEqual({ tab: "logs", at: 5 });
  });
});

describe("failure marks", () => {
  const seqs = listFailureSeqs([makeGroup(70, 10), makeGroup(40, 10)]);

  it("are in the order of the log, each once", () => {
    expect(seqs).toEqual([10, 40, 70]);
  });

  it("lead to the failure before and after an event", () => {
    expect([findFailure(seqs, 40, -1), findFailure(seqs, 40, 1)]).toEqual([10, 70]);
    expect([findFailure(seqs, 10, -1), findFailure(seqs, 70, 1)]).toEqual([undefined, undefined]);
  });

  it("are merged where they would cover each other", () => {
    expect(placeMarks([1, 101], 101)).toEqual([0, 1]);
    expect(placeMarks([500_000, 500_001], 1_000_000)).toHaveLength(1);
    expect(placeMarks([1], 1)).toEqual([0]);
  });
});
