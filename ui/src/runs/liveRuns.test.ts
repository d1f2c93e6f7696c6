import { describe, expect, it } from "vitest";
import type { Run } from "../api/types";
import { applyRunChanges, insertRuns, readRunChanges } from "./liveRuns";

const makeRun = (id: string, minute: number, status = "RUNNING") =>
  ({ execution_id: id, status, started_at: `2026-11-19T19:${String(minute).padStart(2, "0")}:00Z` }) as Run;
const message = (event: string, data: unknown) => ({ event, id: "", data: JSON.stringify(data) });

describe("live runs", () => {
  const pages = [{ executions: [makeRun("2", 20), makeRun("1", 10)] }];

  it("changes rows in place", () => {
    const changes = readRunChanges([message("execution", makeRun("1", 10, "FAILED"))]);
    const result = applyRunChanges(pages, changes);
    expect(result.pages[0]?.executions.map((run) => run.status)).toEqual(["RUNNING", "FAILED"]);
    expect(result.fresh).toEqual([]);
  });

  it("removes rows that no longer match", () => {
    const changes = readRunChanges([message("execution", makeRun("1", 10)), message("gone", { execution_id: "1" })]);
    expect(applyRunChanges(pages, changes).pages[0]?.executions.map((run) => run.execution_id)).toEqual(["2"]);
  });

  it("holds back new runs, and ignores runs of pages that are not loaded", () => {
    const changes = readRunChanges([message("execution", makeRun("3", 30)), message("execution", makeRun("0", 5))]);
    expect(applyRunChanges(pages, changes).fresh.map((run) => run.execution_id)).toEqual(["3"]);
  });

  it("inserts new runs at the top, newest first", () => {
    const next = insertRuns(pages, [makeRun("3", 30), makeRun("4", 40)]);
    expect(next[0]?.executions.map((run) => run.execution_id)).toEqual(["4", "3", "2", "1"]);
  });
});
