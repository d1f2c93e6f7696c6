import { describe, expect, it } from "vitest";
import { formatAddress, readRunView, readSelection, withSelection } from "./runView";

describe("the view of a run in the URL", () => {
  it("reads what it knows", () => {
    const search = { tab: "logs", step: "fetch", iteration: "7", attempt: "x", level: "warn", dialog: "rerun", z: "1" };
    expect(readRunView(search)).toEqual({ tab: "logs", step: "fetch", iteration: 7, dialog: "rerun" });
  });

  it("reads and changes the selection", () => {
    expect(readSelection({ task: "save" })).toBeNull();
    expect(readSelection({ step: "fetch", task: "save", tab: "logs" })).toEqual({ step: "fetch", task: "save" });
    const view = { tab: "logs", step: "fetch", task: "save", iteration: 7 } as const;
    expect(withSelection(view, { step: "report" })).toEqual({ tab: "logs", step: "report" });
    expect(withSelection(view, null)).toEqual({ tab: "logs" });
  });

  it("writes addresses like the CLI", () => {
    expect(formatAddress({ step: "fetch", task: "save", iteration: 7, attempt: 2 })).toBe("fetch#7/save@2");
    expect(formatAddress({ step: "fetch" })).toBe("fetch");
  });
});
