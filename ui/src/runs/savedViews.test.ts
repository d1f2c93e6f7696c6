import { describe, expect, it } from "vitest";
import { parseViews, viewsMax, withView } from "./savedViews";

describe("saved views", () => {
  it("ignores what is not a view", () => {
    expect(parseViews(null)).toEqual([]);
    expect(parseViews("{")).toEqual([]);
    const text = JSON.stringify([{ name: "a", filter: { status: "failed", other: 1 } }, { name: "" }, null, 3]);
    expect(parseViews(text)).toEqual([{ name: "a", filter: { status: "FAILED" } }]);
  });

  it("replaces a view and keeps a bounded number", () => {
    const views = withView([{ name: "a", filter: {} }], { name: "a", filter: { since: "1h" } });
    expect(views).toEqual([{ name: "a", filter: { since: "1h" } }]);
    const many = Array.from({ length: viewsMax }, (_, index) => ({ name: `v${index}`, filter: {} }));
    expect(withView(many, { name: "new", filter: {} })).toHaveLength(viewsMax);
  });
});
