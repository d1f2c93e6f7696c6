import { describe, expect, it } from "vitest";
import type { LogEvent } from "../api/types";
import { collectTaskRuns, findAttempt, readError, readTraceback } from "./taskRuns";

let seq = 0;
const make = (event_type: string, attempt: number, rest: Partial<LogEvent> = {}): LogEvent => ({
  seq: (seq += 1),
  event_id: String(seq),
  event_type,
  event_alias: event_type,
  execution_id: "1",
  source: "worker",
  entity_type: "task",
  entity_id: "",
  workflow_run_id: "",
  trace_id: "",
  status: "",
  timestamp: `2026-11-19T19:22:0${attempt}Z`,
  recorded_at: "",
  step: "score",
  task_label: "rate",
  task_run_id: "task:score.rate:run:1.1",
  attempt,
  payload: {},
  ...rest,
});
const failed = { outcome: { status: "error", error: { code: "X" }, py: { traceback: "Traceback" } } };

describe("task runs", () => {
  const runs = collectTaskRuns([
    make("task.started", 1, { payload: { inputs: { orders: [3] } } }),
    make("task.attempt.started", 1),
    make("task.attempt.failed", 1, { payload: failed, status: "error", duration_ms: 54 }),
    make("policy.task.evaluated", 1, { payload: { matched_rule_index: 0, action: { do: "retry" } } }),
    make("task.attempt.started", 2),
    make("task.attempt.failed", 2, { payload: failed, status: "error", duration_ms: 1 }),
    make("task.failed", 2, {
      payload: { ...failed, matched_rule_index: 0, do: "fail" },
      status: "error",
      duration_ms: 700,
    }),
    make("step.failed", 2, { task_run_id: "" }),
  ]);

  it("have attempts with their outcomes and rules", () => {
    expect(runs).toHaveLength(1);
    const run = runs[0];
    expect(run).toMatchObject({ status: "error", durationMs: 700, inputs: { orders: [3] } });
    expect(run?.attempts).toMatchObject([
      { number: 1, status: "error", durationMs: 54, policy: { rule: 0, action: { do: "retry" } } },
      { number: 2, status: "error", durationMs: 1, policy: { rule: 0, action: { do: "fail" } } },
    ]);
  });

  it("show the last attempt by default, with its error and traceback", () => {
    const run = runs[0];
    if (!run) throw new Error("no run");
    expect(findAttempt(run, 1)?.number).toBe(1);
    const attempt = findAttempt(run, undefined);
    expect(attempt?.number).toBe(2);
    expect(readError(attempt?.outcome)?.code).toBe("X");
    expect(readTraceback(attempt?.outcome)).toBe("Traceback");
    expect(readTraceback(undefined)).toBeNull();
  });
});
