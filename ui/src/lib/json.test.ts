import { describe, expect, it } from "vitest";
import { formatBytes, listOpenPaths, listTreeRows, previewJson, toTable } from "./json";

describe("JSON", () => {
  it("is shortened to a line", () => {
    expect(previewJson({ id: 7, bad: [7, "x"], none: null })).toBe('{id: 7, bad: [7, "x"], none: null}');
    expect(previewJson("long ".repeat(100), 20)).toHaveLength(20);
    expect(previewJson(undefined)).toBe("");
  });

  it("becomes the rows of a tree", () => {
    const value = { a: [1, { b: 2 }], "x/y": true };
    expect(listTreeRows(value, new Set()).map((row) => row.path)).toEqual([""]);
    const rows = listTreeRows(value, new Set(["", "/a"]));
    expect(rows.map((row) => [row.path, row.depth, row.size])).toEqual([
      ["", 0, 2],
      ["/a", 1, 2],
      ["/a/0", 2, null],
      ["/a/1", 2, 1],
      ["/x~1y", 1, null],
    ]);
  });

  it("opens a tree down to a depth", () => {
    expect([...listOpenPaths({ a: { b: { c: 1 } }, d: 1 }, 2)]).toEqual(["", "/a"]);
  });

  it("becomes a table", () => {
    expect(toTable([{ a: 1 }, { b: 2 }])).toEqual({
      columns: ["a", "b"],
      rows: [
        [1, null],
        [null, 2],
      ],
    });
    expect(toTable([1, 2])).toEqual({ columns: ["value"], rows: [[1], [2]] });
    expect(toTable({ a: 1 })).toBeNull();
  });

  it("shows sizes", () => {
    expect(formatBytes(12)).toBe("12 B");
    expect(formatBytes(18 * 1024)).toBe("18 KiB");
    expect(formatBytes(1.5 * 1024 * 1024)).toBe("1.5 MiB");
  });
});
