// Positions of the steps of a graph in layers, and the ways of its arcs around them.
import { Graph, layout } from "@dagrejs/dagre";
import type { GraphArc, GraphStep } from "../../api/types";

export interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  width: number;
  height: number;
}

export interface GraphLayout {
  boxes: Map<string, Box>;
  /** Points of each arc, by the name of the arc. */
  routes: Map<string, Point[]>;
}

export const nodeWidth = 216;
const headHeight = 46;
const loopHeight = 28;
const tasksHeight = 24;
const separation = { nodesep: 24, ranksep: 64, edgesep: 20 };
const leadLength = 20;
const labelSize = { width: 26, height: 22, labelpos: "c" };

export function nameArc(arc: GraphArc): string {
  return `${arc.from} ${arc.index}`;
}

/** How high the node of a step is: a head, and parts for tasks and a loop. */
export function measureStep(step: GraphStep): number {
  return headHeight + (step.tasks.length > 0 ? tasksHeight : 0) + (step.loop ? loopHeight : 0);
}

export function layoutGraph(steps: GraphStep[], arcs: GraphArc[], direction: "LR" | "TB"): GraphLayout {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: direction, ...separation });
  for (const step of steps) graph.setNode(step.step, { width: nodeWidth, height: measureStep(step) });
  const drawn = arcs.filter((arc) => graph.hasNode(arc.to));
  for (const arc of drawn) graph.setEdge(arc.from, arc.to, { ...labelSize }, nameArc(arc));
  layout(graph);
  const boxes = new Map(
    steps.map((step) => {
      const { x, y, width, height } = graph.node(step.step) as Box;
      return [step.step, { x: x - width / 2, y: y - height / 2, width, height }];
    }),
  );
  const routes = new Map(
    drawn.map((arc) => {
      const { points } = graph.edge(arc.from, arc.to, nameArc(arc)) as { points: Point[] };
      return [nameArc(arc), attachEnds(points, boxes.get(arc.from), boxes.get(arc.to), direction)];
    }),
  );
  return { boxes, routes };
}

/** Lets an arc that goes forward leave and arrive straight, at the middle of the facing sides. */
function attachEnds(points: Point[], from: Box | undefined, to: Box | undefined, direction: "LR" | "TB"): Point[] {
  if (!from || !to) return points;
  const isAcross = direction === "LR";
  const start = isAcross
    ? { x: from.x + from.width, y: from.y + from.height / 2 }
    : { x: from.x + from.width / 2, y: from.y + from.height };
  const end = isAcross ? { x: to.x, y: to.y + to.height / 2 } : { x: to.x + to.width / 2, y: to.y };
  const distance = isAcross ? end.x - start.x : end.y - start.y;
  if (distance < 0) return points;
  const shift = (point: Point, by: number) =>
    isAcross ? { x: point.x + by, y: point.y } : { x: point.x, y: point.y + by };
  return [start, shift(start, leadLength), ...points.slice(1, -1), shift(end, -leadLength), end];
}

/** A smooth line along a way, the direction in which it arrives, and the place of a label on it. */
export function drawRoute(points: Point[]): { path: string; end: Point; angle: number; label: Point } {
  const first = points[0] ?? { x: 0, y: 0 };
  const end = points.at(-1) ?? first;
  const before = points.at(-2) ?? first;
  const corners = points.slice(1, -1);
  const parts = [`M${first.x} ${first.y}`];
  corners.forEach((corner, index) => {
    const next = corners[index + 1];
    const target = next ? middleOf(corner, next) : end;
    parts.push(`Q${corner.x} ${corner.y} ${target.x} ${target.y}`);
  });
  if (corners.length === 0) parts.push(`L${end.x} ${end.y}`);
  const angle = (Math.atan2(end.y - before.y, end.x - before.x) * 180) / Math.PI;
  return { path: parts.join(""), end, angle, label: findMiddle(first, corners, end) };
}

/** The middle of the line that `drawRoute` draws. */
function findMiddle(first: Point, corners: Point[], end: Point): Point {
  const half = Math.floor(corners.length / 2);
  const corner = corners[half];
  const earlier = corners[half - 1];
  if (!corner) return middleOf(first, end);
  if (corners.length % 2 === 0 && earlier) return middleOf(earlier, corner);
  const next = corners[half + 1];
  const from = earlier ? middleOf(earlier, corner) : first;
  const to = next ? middleOf(corner, next) : end;
  return { x: (from.x + 2 * corner.x + to.x) / 4, y: (from.y + 2 * corner.y + to.y) / 4 };
}

function middleOf(first: Point, second: Point): Point {
  return { x: (first.x + second.x) / 2, y: (first.y + second.y) / 2 };
}
