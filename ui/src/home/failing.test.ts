import { describe, expect, it } from "vitest";
import type { Run } from "../api/types";
import { groupByPlaybook } from "./failing";

describe("failing playbooks", () => {
  it("show their newest run and the number of runs", () => {
    const runs = [
      { path: "a", execution_id: "3" },
      { path: "b", execution_id: "2" },
      { path: "a", execution_id: "1" },
    ] as Run[];
    expect(groupByPlaybook(runs).map(({ newest, count }) => [newest.execution_id, count])).toEqual([
      ["3", 2],
      ["2", 1],
    ]);
  });
});
