import { describe, expect, it } from "vitest";
import type { ReferenceEntry } from "../../api/types";
import { formatResultKey, readReference, readResultStep } from "./resultKey";

const entry = { step: "fetch", run: 2, task: "save", iteration: 0, attempt: 1 } as ReferenceEntry;

describe("keys of results", () => {
  it("are places in the run", () => {
    expect(formatResultKey(entry)).toBe("fetch/2/save/0//1");
    expect(readResultStep("fetch/2/save/0//1")).toBe("fetch");
  });

  it("have a reference if they are stored", () => {
    const reference = { ref: "noetl://execution/1", store: "disk", meta: { sha256: "ab" }, preview: { sample: [1] } };
    expect(readReference(entry)).toBeNull();
    expect(readReference({ ...entry, reference: reference as never })).toEqual({
      address: "noetl://execution/1",
      store: "disk",
      scope: null,
      sha256: "ab",
      sample: [1],
    });
  });
});
