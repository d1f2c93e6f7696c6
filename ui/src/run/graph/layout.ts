// Positions of the steps of a graph, in layers from left to right or top to bottom.
import { Graph, layout } from "@dagrejs/dagre";
import type { GraphArc, GraphStep } from "../../api/additions";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export const nodeWidth = 216;
const headHeight = 46;
const loopHeight = 28;
const tasksHeight = 24;
const separation = { nodesep: 24, ranksep: 64, edgesep: 16 };

/** How high the node of a step is: a head, and parts for tasks and a loop. */
export function measureStep(step: GraphStep): number {
  return headHeight + (step.tasks.length > 0 ? tasksHeight : 0) + (step.loop ? loopHeight : 0);
}

export function layoutGraph(steps: GraphStep[], arcs: GraphArc[], direction: "LR" | "TB"): Map<string, Box> {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: direction, ...separation });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const step of steps) graph.setNode(step.step, { width: nodeWidth, height: measureStep(step) });
  for (const arc of arcs) if (graph.hasNode(arc.to)) graph.setEdge(arc.from, arc.to, {}, String(arc.index));
  layout(graph);
  return new Map(
    steps.map((step) => {
      const { x, y, width, height } = graph.node(step.step) as Box;
      return [step.step, { x: x - width / 2, y: y - height / 2, width, height }];
    }),
  );
}
