// The timeline of a run: when its steps, tasks and attempts were queued and ran. Loops are one row that can be opened.
import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";
import { timelineQuery } from "../../api/queries";
import type { Timeline } from "../../api/types";
import { ProblemNote } from "../../parts/ProblemNote";
import { useRowHeight } from "../../shell/preferences";
import { useRun } from "../context";
import { withoutKeys } from "../runView";
import { TimeAxis } from "./TimeAxis";
import { TimelineBar } from "./TimelineBar";
import { TimelineRowView } from "./TimelineRowView";
import { listActivity, listRows, runLength } from "./timelineRows";
import { createScale, formatZoom, gapsInView, parseZoom, type Zoom } from "./timeScale";
import "./timeline.css";

export default function TimelineTab() {
  const { detail } = useRun();
  const { data, error, refetch } = useQuery(timelineQuery(detail.execution_id));
  if (error && !data) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  if (data.steps.length === 0) return <p className="notice muted">No step has been scheduled yet.</p>;
  return <TimelineView timeline={data} />;
}

function TimelineView({ timeline }: { timeline: Timeline }) {
  const { view, setView } = useRun();
  const scale = useMemo(() => createScale(listActivity(timeline), runLength(timeline)), [timeline]);
  const zoom = parseZoom(scale, view.time);
  const openLoops = useMemo(() => new Set((view.open ?? "").split(",").filter(Boolean)), [view.open]);
  const rows = useMemo(() => listRows(timeline, openLoops), [timeline, openLoops]);
  const setZoom = (next: Zoom) => {
    const time = formatZoom(scale, next);
    setView((current) => ({ ...withoutKeys(current, "time"), ...(time ? { time } : {}) }), true);
  };
  const toggleLoop = (key: string) => {
    const next = new Set(openLoops);
    if (!next.delete(key)) next.add(key);
    const open = [...next].join(",");
    setView((current) => ({ ...withoutKeys(current, "open"), ...(open ? { open } : {}) }), true);
  };
  return (
    <>
      <TimelineBar timeline={timeline} zoom={zoom} onZoom={setZoom} />
      <div className="timeline">
        <TimeAxis scale={scale} zoom={zoom} onZoom={setZoom} />
        <RowList rows={rows} scale={scale} zoom={zoom} onToggle={toggleLoop} />
      </div>
      {!timeline.is_complete && (
        <p className="timeline-note muted">The run is too long for one timeline. It shows the first steps and loops.</p>
      )}
    </>
  );
}

interface RowListProps extends Pick<React.ComponentProps<typeof TimelineRowView>, "scale" | "zoom" | "onToggle"> {
  rows: ReturnType<typeof listRows>;
}

function RowList({ rows, scale, zoom, onToggle }: RowListProps) {
  const { view } = useRun();
  const scrollRef = useRef<HTMLDivElement>(null);
  const rowHeight = useRowHeight();
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scrollRef.current,
    estimateSize: () => rowHeight,
    overscan: 20,
  });
  const moveFocus = (event: React.KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = (event.target as HTMLElement).closest("[data-index]");
    if (!step || !row) return;
    event.preventDefault();
    const next = Number(row.getAttribute("data-index")) + step;
    virtual.scrollToIndex(next);
    const button = scrollRef.current?.querySelector<HTMLElement>(`[data-index="${next}"] .timeline-open`);
    button?.focus();
  };
  return (
    <div
      className="timeline-rows"
      ref={scrollRef}
      onKeyDown={moveFocus}
      data-critical={view.path === "critical" || undefined}
    >
      <ul className="timeline-list" style={{ height: virtual.getTotalSize() }}>
        {gapsInView(scale, zoom).map((gap) => (
          <li
            key={gap.from}
            className="timeline-gap"
            role="presentation"
            style={{ "--start": gap.start, "--length": gap.end - gap.start } as React.CSSProperties}
          />
        ))}
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          return (
            row && (
              <TimelineRowView
                key={row.key}
                row={row}
                index={item.index}
                top={item.start}
                height={rowHeight}
                scale={scale}
                zoom={zoom}
                onToggle={onToggle}
              />
            )
          );
        })}
      </ul>
    </div>
  );
}
