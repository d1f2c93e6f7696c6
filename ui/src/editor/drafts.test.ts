import { beforeEach, describe, expect, it } from "vitest";
import { discardDraft, keepDraft, loadDraft, readDraft } from "./drafts";

const draft = { text: "kind: Playbook\n", version: 2, savedAt: "2030-01-02T03:04:05Z" };

describe("drafts", () => {
  beforeEach(() => localStorage.clear());

  it("are kept for each path until they are discarded", () => {
    expect(keepDraft("demo/a", draft)).toBe(true);
    expect(loadDraft("demo/a")).toEqual(draft);
    expect(loadDraft("demo/b")).toBeNull();
    discardDraft("demo/a");
    expect(loadDraft("demo/a")).toBeNull();
  });

  it("are ignored if something else is stored in their place", () => {
    for (const kept of [null, "text", {}, { text: 1, savedAt: "" }, { text: "a" }]) expect(readDraft(kept)).toBeNull();
    expect(readDraft({ ...draft, version: "2" })).toEqual({ ...draft, version: null });
  });
});
