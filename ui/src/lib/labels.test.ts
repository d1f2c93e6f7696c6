import { describe, expect, it } from "vitest";
import { addLabel, removeLabel, splitLabels } from "./labels";

describe("labels of a filter", () => {
  it("keeps commas of values", () => {
    const text = addLabel("team:x", "owner", "a,b\\c");
    expect(splitLabels(text)).toEqual(["team:x", "owner:a,b\\c"]);
    expect(removeLabel(text, "owner:a,b\\c")).toBe("team:x");
  });

  it("replaces the value of a key", () => {
    expect(addLabel("team:x,env:prod", "team", "y")).toBe("env:prod,team:y");
    expect(splitLabels(" , ")).toEqual([]);
  });
});
