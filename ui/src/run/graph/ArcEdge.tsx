// An arc: solid with a count where it was taken, dashed where its condition was false. The condition is on hover.
import { BaseEdge, EdgeLabelRenderer, getBezierPath, type Edge, type EdgeProps } from "@xyflow/react";
import type { GraphArc } from "../../api/additions";
import { Tip } from "../../parts/Tip";

export type ArcEdgeData = { arc: GraphArc };
export type ArcFlowEdge = Edge<ArcEdgeData, "arc">;

export function ArcEdge(props: EdgeProps<ArcFlowEdge>) {
  const { sourceX, sourceY, targetX, targetY, sourcePosition, targetPosition, data } = props;
  const [path, labelX, labelY] = getBezierPath({ sourceX, sourceY, targetX, targetY, sourcePosition, targetPosition });
  if (!data) return null;
  const { arc } = data;
  const state = arc.taken > 0 ? "taken" : arc.refused > 0 ? "refused" : "open";
  const isDown = targetPosition === "top";
  const head = isDown
    ? `M${targetX - 4} ${targetY - 7}L${targetX} ${targetY}L${targetX + 4} ${targetY - 7}Z`
    : `M${targetX - 7} ${targetY - 4}L${targetX} ${targetY}L${targetX - 7} ${targetY + 4}Z`;
  const hasLabel = arc.when !== null || arc.taken > 1;
  return (
    <>
      <BaseEdge path={path} className={`arc arc-${state}`} />
      <path d={head} className={`arc-head arc-head-${state}`} />
      {hasLabel && (
        <EdgeLabelRenderer>
          <div className="arc-label" style={{ transform: `translate(-50%, -50%) translate(${labelX}px, ${labelY}px)` }}>
            <Tip text={describeArc(arc)}>
              <button type="button" className={`arc-button arc-button-${state}`} aria-label={describeArc(arc)}>
                {state === "refused" ? "✗" : state === "open" ? "?" : arc.taken > 1 ? `×${arc.taken}` : "✓"}
              </button>
            </Tip>
          </div>
        </EdgeLabelRenderer>
      )}
    </>
  );
}

export function describeArc(arc: GraphArc): string {
  const counts = `taken ${arc.taken}, refused ${arc.refused}`;
  const last = arc.last ? `, last value ${JSON.stringify(arc.last.value)} at event ${arc.last.seq}` : "";
  return `${arc.from} → ${arc.to}: ${arc.when ? `when ${arc.when}` : "no condition"}; ${counts}${last}`;
}
