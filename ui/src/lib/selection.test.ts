import { describe, expect, it } from "vitest";
import { areAllSelected, emptySelection, isSelected, toggleAllRows, toggleRow } from "./selection";

const rows = ["a", "b", "c", "d"];

describe("selection of rows", () => {
  it("selects single rows and ranges", () => {
    const one = toggleRow(emptySelection, rows, "d", false);
    const range = toggleRow(one, rows, "b", true);
    expect([...range.ids].sort()).toEqual(["b", "c", "d"]);
    expect([...toggleRow(range, rows, "c", false).ids].sort()).toEqual(["b", "d"]);
  });

  it("ends the selection of all matching runs when one is deselected", () => {
    const all = { ids: new Set<string>(), isAll: true };
    expect(isSelected(all, "not loaded")).toBe(true);
    const rest = toggleRow(all, rows, "a", false);
    expect(rest.isAll).toBe(false);
    expect([...rest.ids]).toEqual(["b", "c", "d"]);
  });

  it("selects all rows and none", () => {
    const all = toggleAllRows(emptySelection, rows);
    expect(areAllSelected(all, rows)).toBe(true);
    expect(toggleAllRows(all, rows)).toEqual(emptySelection);
    expect(areAllSelected(emptySelection, [])).toBe(false);
  });
});
