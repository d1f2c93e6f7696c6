// The bar above the timeline: zoom, critical path, and what bars mean.
import type { Timeline } from "../../api/types";
import { Button, IconButton } from "../../parts/Button";
import { CopyIcon } from "../../parts/copy";
import { useKeys } from "../../shell/keyboard";
import { useRun } from "../context";
import { withoutKeys } from "../runView";
import { panBy, wholeRun, zoomBy, type Zoom } from "./timeScale";

interface TimelineBarProps {
  timeline: Timeline;
  zoom: Zoom;
  onZoom: (zoom: Zoom) => void;
}

export function TimelineBar({ timeline, zoom, onZoom }: TimelineBarProps) {
  const { view, setView } = useRun();
  const isZoomed = zoom.start > 0 || zoom.end < 1;
  const isCritical = view.path === "critical";
  const criticalCount = timeline.steps.filter((step) => step.is_critical).length;
  useKeys("Timeline", [
    { keys: "+", label: "Zoom in", run: () => onZoom(zoomBy(zoom, 0.5)) },
    { keys: "-", label: "Zoom out", run: () => onZoom(zoomBy(zoom, 2)) },
    { keys: "0", label: "Whole run", run: () => onZoom(wholeRun) },
    { keys: "<", label: "Earlier", run: () => onZoom(panBy(zoom, -0.25)) },
    { keys: ">", label: "Later", run: () => onZoom(panBy(zoom, 0.25)) },
  ]);
  return (
    <div className="tab-bar">
      <IconButton isSmall icon="plus" label="Zoom in" keys="+" onClick={() => onZoom(zoomBy(zoom, 0.5))} />
      <IconButton
        isSmall
        icon="minus"
        label="Zoom out"
        keys="-"
        disabled={!isZoomed}
        onClick={() => onZoom(zoomBy(zoom, 2))}
      />
      <IconButton isSmall icon="fit" label="Whole run" keys="0" disabled={!isZoomed} onClick={() => onZoom(wholeRun)} />
      <Button
        isSmall
        aria-pressed={isCritical}
        onClick={() =>
          setView((current) => ({ ...withoutKeys(current, "path"), ...(isCritical ? {} : { path: "critical" }) }), true)
        }
      >
        Critical path
      </Button>
      {isCritical && (
        <span className="muted">
          {criticalCount} of {timeline.steps.length} step runs
        </span>
      )}
      <span className="grow" />
      <ul className="timeline-legend muted" aria-label="Parts of a bar">
        <li>
          <span className="timeline-swatch bar-queued" aria-hidden="true" /> queued
        </li>
        <li>
          <span className="timeline-swatch fill-done" aria-hidden="true" /> ran
        </li>
        <li>
          <span className="timeline-swatch fill-failed" aria-hidden="true" /> failed
        </li>
        <li>
          <span className="tone-retrying" aria-hidden="true">
            ↻
          </span>{" "}
          retry
        </li>
      </ul>
      <CopyIcon text={window.location.href} what="the link to this view" />
    </div>
  );
}
