import { describe, expect, it } from "vitest";
import { toCharacterColumn, toUnitColumn } from "./columns";

describe("columns", () => {
  it("count a character outside the basic plane once", () => {
    expect(toCharacterColumn("a😀b", 3)).toBe(3);
    expect(toUnitColumn("a😀b", 3)).toBe(3);
    expect(toUnitColumn("añb", 3)).toBe(2);
  });

  it("stay inside the line", () => {
    expect(toUnitColumn("ab", 9)).toBe(2);
    expect(toUnitColumn("ab", 0)).toBe(0);
    expect(toCharacterColumn("", 0)).toBe(1);
  });
});
