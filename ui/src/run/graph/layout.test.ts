import { describe, expect, it } from "vitest";
import type { GraphArc, GraphStep } from "../../api/types";
import { drawRoute, layoutGraph, measureStep } from "./layout";

const makeStep = (step: string, rest: Partial<GraphStep> = {}) =>
  ({ step, tasks: [], loop: null, ...rest }) as unknown as GraphStep;
const makeArc = (from: string, to: string, index = 0) => ({ from, to, index }) as GraphArc;

describe("layout of a graph", () => {
  const steps = ["a", "b", "c"].map((name) => makeStep(name));
  const arcs = [makeArc("a", "b"), makeArc("a", "c", 1), makeArc("b", "a"), makeArc("a", "missing", 2)];

  it("puts a step after the steps before it", () => {
    const { boxes, routes } = layoutGraph(steps, arcs, "LR");
    expect(boxes.get("b")?.x).toBeGreaterThan(boxes.get("a")?.x ?? 0);
    expect(boxes.get("c")?.x).toBe(boxes.get("b")?.x);
    expect([...routes.keys()]).toEqual(["a 0", "a 1", "b 0"]);
  });

  it("leads an arc around the steps between its ends", () => {
    const { boxes, routes } = layoutGraph(steps, [makeArc("a", "b"), makeArc("b", "c"), makeArc("a", "c", 1)], "LR");
    const between = boxes.get("b");
    if (!between) throw new Error("no box");
    const isInside = (point: { x: number; y: number }) =>
      point.x > between.x &&
      point.x < between.x + between.width &&
      point.y > between.y &&
      point.y < between.y + between.height;
    expect(routes.get("a 1")?.some(isInside)).toBe(false);
  });

  it("makes room for tasks and loops", () => {
    const task = { label: "x" } as GraphStep["tasks"][number];
    expect(measureStep(makeStep("a", { tasks: [task] }))).toBeGreaterThan(measureStep(makeStep("a")));
  });

  it("draws a way from its start to its end", () => {
    const points = [
      { x: 0, y: 0 },
      { x: 10, y: 0 },
      { x: 10, y: 20 },
    ];
    expect(drawRoute(points)).toMatchObject({
      path: "M0 0Q10 0 10 20",
      end: { x: 10, y: 20 },
      angle: 90,
      label: { x: 7.5, y: 5 },
    });
  });
});
