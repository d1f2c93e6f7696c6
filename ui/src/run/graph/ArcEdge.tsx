// An arc: solid with a count where it was taken, dashed where its condition was false. The condition is on hover.
import { BaseEdge, EdgeLabelRenderer, type Edge, type EdgeProps } from "@xyflow/react";
import type { GraphArc } from "../../api/types";
import { Tip } from "../../parts/Tip";
import { drawRoute, type Point } from "./layout";

export interface ArcEdgeData extends Record<string, unknown> {
  arc: GraphArc;
  points: Point[];
  /** Whether there is no run: the arc shows only whether it has a condition. */
  isStatic?: boolean;
}
export type ArcFlowEdge = Edge<ArcEdgeData, "arc">;

export function ArcEdge({ data }: EdgeProps<ArcFlowEdge>) {
  if (!data) return null;
  const { arc, points, isStatic = false } = data;
  const state = isStatic ? "static" : arc.followed > 0 ? "taken" : arc.refused > 0 ? "refused" : "open";
  const { path, end, angle, label } = drawRoute(points);
  const hasLabel = arc.when !== null || arc.followed > 1;
  return (
    <>
      <BaseEdge path={path} className={`arc arc-${state}`} />
      <path
        d="M-8-4 0 0-8 4Z"
        transform={`translate(${end.x} ${end.y}) rotate(${angle})`}
        className={`arc-head arc-head-${state}`}
      />
      {hasLabel && (
        <EdgeLabelRenderer>
          <div
            className="arc-label"
            style={{ transform: `translate(-50%, -50%) translate(${label.x}px, ${label.y}px)` }}
          >
            <Tip text={<ArcFacts arc={arc} isStatic={isStatic} />}>
              <button
                type="button"
                className={`arc-button arc-button-${state}`}
                aria-label={describeArc(arc, isStatic)}
              >
                {state === "static"
                  ? "if"
                  : state === "refused"
                    ? "✗"
                    : state === "open"
                      ? "?"
                      : arc.followed > 1
                        ? `×${arc.followed}`
                        : "✓"}
              </button>
            </Tip>
          </div>
        </EdgeLabelRenderer>
      )}
    </>
  );
}

function ArcFacts({ arc, isStatic }: { arc: GraphArc; isStatic: boolean }) {
  return (
    <>
      <p>
        {arc.from} → {arc.to}
      </p>
      {arc.when !== null && <p className="mono">{arc.when}</p>}
      {!isStatic && <p>{describeCounts(arc)}</p>}
    </>
  );
}

export function describeArc(arc: GraphArc, isStatic = false): string {
  const when = arc.when === null ? "without a condition" : `when ${arc.when}`;
  const name = `Arc from ${arc.from} to ${arc.to} ${when}`;
  return isStatic ? name : `${name}: ${describeCounts(arc)}`;
}

function describeCounts({ followed, refused, last }: GraphArc): string {
  if (!last) return "not evaluated yet";
  return `followed ${followed} times, condition false ${refused} times, last at event ${last.seq}`;
}
