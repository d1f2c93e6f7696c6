import { describe, expect, it } from "vitest";
import type { GraphArc, GraphStep } from "../../api/additions";
import { layoutGraph, measureStep } from "./layout";

const makeStep = (step: string, rest: Partial<GraphStep> = {}) =>
  ({ step, tasks: [], loop: null, ...rest }) as unknown as GraphStep;
const makeArc = (from: string, to: string, index = 0) => ({ from, to, index }) as GraphArc;

describe("layout of a graph", () => {
  it("puts a step after the steps before it", () => {
    const steps = ["a", "b", "c"].map((name) => makeStep(name));
    const arcs = [makeArc("a", "b"), makeArc("a", "c", 1), makeArc("b", "a"), makeArc("a", "missing", 2)];
    const boxes = layoutGraph(steps, arcs, "LR");
    expect(boxes.get("b")?.x).toBeGreaterThan(boxes.get("a")?.x ?? 0);
    expect(boxes.get("c")?.x).toBe(boxes.get("b")?.x);
    expect(boxes.size).toBe(3);
  });

  it("makes room for tasks and loops", () => {
    const task = { label: "x" } as GraphStep["tasks"][number];
    expect(measureStep(makeStep("a", { tasks: [task] }))).toBeGreaterThan(measureStep(makeStep("a")));
  });
});
