// Cells fit into the space there is, and keys and points find them.
import { describe, expect, it } from "vitest";
import { cellAt, cellsBetween, layoutHeatmap, moveCursor, positionOf } from "./heatmapLayout";

describe("the layout of a heatmap", () => {
  it("makes cells smaller the more there are", () => {
    const sizes = [100, 5_000, 12_000, 20_000].map((count) => layoutHeatmap(count, 1000, 400).size);
    expect(sizes).toEqual([10, 8, 5, 4]);
    expect(layoutHeatmap(20_000, 300, 400)).toEqual({ size: 3, gap: 0, columns: 100, rows: 200 });
    expect(layoutHeatmap(3, 1000, 400)).toEqual({ size: 10, gap: 1, columns: 3, rows: 1 });
  });

  it("finds each cell at its position, and none beside them", () => {
    const layout = layoutHeatmap(250, 1000, 400);
    for (const cell of [0, 99, 100, 249]) {
      const { x, y } = positionOf(layout, cell);
      expect(cellAt(layout, 250, x + 1, y + 1)).toBe(cell);
    }
    expect(cellAt(layout, 250, 995, 25)).toBeNull();
    expect(cellAt(layout, 250, -1, 0)).toBeNull();
  });

  it("selects a rectangle from any corner", () => {
    const layout = { size: 10, gap: 1, columns: 10, rows: 3 };
    expect(cellsBetween(layout, 25, 12, 1)).toEqual([1, 2, 11, 12]);
    expect(cellsBetween(layout, 25, 13, 24)).toEqual([13, 14, 23, 24]);
    expect(cellsBetween(layout, 25, 15, 24)).toEqual([14, 15, 24]);
  });

  it("moves the cursor with keys and keeps it among the cells", () => {
    const layout = { size: 10, gap: 1, columns: 10, rows: 3 };
    const move = (cell: number, key: string) => moveCursor(layout, 25, cell, key);
    expect([move(0, "ArrowRight"), move(0, "ArrowLeft"), move(3, "ArrowDown"), move(20, "ArrowDown")]).toEqual([
      1, 0, 13, 20,
    ]);
    expect([move(3, "End"), move(24, "Home"), move(3, "PageDown"), move(3, "x")]).toEqual([24, 0, 24, null]);
  });
});
