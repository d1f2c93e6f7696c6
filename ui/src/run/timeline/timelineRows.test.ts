// Rows of the timeline: queued and running parts, retries, and loops that are folded until they are opened.
import { describe, expect, it } from "vitest";
import type { Timeline, TimelineStep } from "../../api/types";
import { listActivity, listRows, runLength } from "./timelineRows";

const at = (micros: number) =>
  `2026-01-01T00:00:${String(micros / 1_000_000).padStart(9, "0")}Z`.replace(/:(\d\.)/, ":0$1");
const none = { waiting: [], running: [], retrying: [], success: [], error: [], cancelled: [] };

const retried: TimelineStep = {
  step: "fetch",
  run: 1,
  status: "success",
  queued_at: at(100_001),
  started_at: at(200_001),
  ended_at: at(900_001),
  is_critical: true,
  is_reused: false,
  tasks: [
    {
      task: "get",
      visit: 1,
      status: "success",
      started_at: at(200_001),
      ended_at: at(900_001),
      attempts: [
        { attempt: 1, status: "error", started_at: at(200_001), ended_at: at(300_001) },
        { attempt: 2, status: "success", started_at: at(800_001), ended_at: at(900_001) },
      ],
    },
  ],
  loop: null,
};

const looped: TimelineStep = {
  ...retried,
  step: "each",
  is_critical: false,
  tasks: [],
  loop: {
    total: 3,
    succeeded: 2,
    failed: 1,
    from: at(200_001),
    bin_us: 10,
    band: none,
    measured: 3,
    is_complete: true,
    iterations: [{ iteration: 1, status: "error", started_at: at(200_001), ended_at: at(200_009), attempts: 2 }],
  },
};

const timeline: Timeline = {
  execution_id: "1",
  seq: 9,
  status: "COMPLETED",
  started_at: at(1),
  ended_at: at(1_000_001),
  now: at(5_000_001),
  is_complete: true,
  steps: [retried, looped],
};

describe("the rows of a timeline", () => {
  it("have a queued and a running part, and the retries of a task", () => {
    const [step, task, first, second] = listRows(timeline, new Set());
    expect(step?.bars.map((bar) => [bar.from, bar.to, bar.isQueued ?? false])).toEqual([
      [100_000, 200_000, true],
      [200_000, 900_000, false],
    ]);
    expect(step?.words).toContain("fetch, succeeded, queued 100ms, took 700ms");
    expect(step?.words).toContain("on the critical path");
    expect(task?.retries).toEqual([800_000]);
    expect([first?.selection.attempt, second?.status]).toEqual([1, "success"]);
    expect(runLength(timeline)).toBe(1_000_000);
  });

  it("fold a loop until it is opened", () => {
    expect(listRows(timeline, new Set()).map((row) => row.key)).not.toContain("each:1#1");
    const open = listRows(timeline, new Set(["each:1"])).find((row) => row.key === "each:1#1");
    expect(open?.words).toContain("each#1, failed, took 8µs");
    expect(open?.selection).toEqual({ step: "each", iteration: 1 });
  });

  it("are active only while an attempt runs", () => {
    const bars = listActivity({ ...timeline, steps: [retried] }).map((bar) => [bar.from, bar.to]);
    expect(bars).toEqual([
      [100_000, 200_000],
      [200_000, 300_000],
      [800_000, 900_000],
    ]);
  });
});
