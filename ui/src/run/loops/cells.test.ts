// Cells in words, ranges as text, and the levels of colors.
import { describe, expect, it } from "vitest";
import type { LoopCells } from "../../api/types";
import {
  cellOfIteration,
  describeCell,
  formatRanges,
  iterationsOfCell,
  joinCells,
  levelBounds,
  levelOf,
  parseRanges,
} from "./cells";

const none = { waiting: [], running: [], retrying: [], success: [], error: [], cancelled: [] };

function cellsOf(statuses: string, changes: Partial<LoopCells> = {}): LoopCells {
  const totals = { waiting: 0, running: 0, retrying: 0, success: 0, error: 0, cancelled: 0 };
  return {
    execution_id: "1",
    step: "each",
    run: 1,
    runs: [1],
    total: statuses.length,
    may_grow: false,
    from: 0,
    to: statuses.length,
    cell_size: 1,
    statuses,
    counts: none,
    totals,
    durations_us: null,
    attempts: null,
    is_complete: true,
    is_sampled: false,
    ...changes,
  };
}

describe("cells", () => {
  it("are described by their status, duration and attempts", () => {
    const cells = cellsOf("se", { durations_us: [1500, null], attempts: [2, null] });
    expect(describeCell(cells, 0)).toBe("iteration 0, succeeded, took 1.5ms, 2 attempts");
    expect(describeCell(cells, 1)).toBe("iteration 1, failed, not measured");
  });

  it("of several iterations are described by their counts, the worst first", () => {
    const counts = { ...none, success: [9, 5], error: [1, 0] };
    const cells = cellsOf("es", { from: 5_000, to: 5_015, cell_size: 10, counts });
    expect(describeCell(cells, 0)).toBe("iterations 5,000 to 5,009, 1 failed, 9 succeeded");
    expect(iterationsOfCell(cells, 1)).toEqual({ first: 5010, last: 5014 });
    expect(cellOfIteration(cells, 5010)).toBe(1);
    expect(cellOfIteration(cells, 5015)).toBeNull();
    expect(joinCells(cells, [1, 0])).toEqual([{ first: 5000, last: 5014 }]);
  });

  it("have levels between the shortest and the longest duration", () => {
    const bounds = levelBounds(cellsOf("ss", { durations_us: [1, 100_000] }), "duration");
    expect(bounds).toEqual([10, 100, 1000, 10_000]);
    expect([null, 1, 11, 5_000, 100_000].map((value) => levelOf(value, bounds))).toEqual([-1, 0, 1, 3, 4]);
  });
});

describe("ranges", () => {
  it("are read as they are written, and broken parts are left out", () => {
    const ranges = [
      { first: 3, last: 3 },
      { first: 7, last: 9 },
    ];
    expect(formatRanges(ranges)).toBe("3,7-9");
    expect(parseRanges("3,7-9")).toEqual(ranges);
    expect(parseRanges("x,9-7,,1")).toEqual([{ first: 1, last: 1 }]);
  });
});
