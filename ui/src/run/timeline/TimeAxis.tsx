// The time axis: round times, breaks where nothing ran, and a brush. With the keyboard, arrows move and + and - zoom.
import { useRef, useState } from "react";
import { formatDuration, formatMicroseconds } from "../../lib/time";
import { findTicks, gapsInView, panBy, toTime, wholeRun, zoomBy, type TimeScale, type Zoom } from "./timeScale";

interface TimeAxisProps {
  scale: TimeScale;
  zoom: Zoom;
  onZoom: (zoom: Zoom) => void;
}

const brushLeast = 0.005;

export function TimeAxis({ scale, zoom, onZoom }: TimeAxisProps) {
  const axis = useRef<HTMLDivElement>(null);
  const [brush, setBrush] = useState<Zoom | null>(null);
  const length = zoom.end - zoom.start;
  const percent = (position: number) => `${position * 100}%`;
  const find = (event: React.PointerEvent) => {
    const box = axis.current?.getBoundingClientRect();
    return box ? Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) : 0;
  };
  const endBrush = () => {
    if (brush && Math.abs(brush.end - brush.start) > brushLeast) {
      const [start, end] = [Math.min(brush.start, brush.end), Math.max(brush.start, brush.end)];
      onZoom({ start: zoom.start + start * length, end: zoom.start + end * length });
    }
    setBrush(null);
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    const next = {
      ArrowLeft: () => panBy(zoom, -0.25),
      ArrowRight: () => panBy(zoom, 0.25),
      ArrowUp: () => zoomBy(zoom, 0.5),
      ArrowDown: () => zoomBy(zoom, 2),
      Home: () => wholeRun,
    }[event.key];
    if (!next) return;
    event.preventDefault();
    onZoom(next());
  };
  const [from, to] = [toTime(scale, zoom.start), toTime(scale, zoom.end)];
  return (
    <div className="timeline-head">
      <span className="timeline-label muted">since the start</span>
      <div
        ref={axis}
        className="timeline-axis"
        role="application"
        aria-roledescription="time axis"
        aria-label={`From ${formatMicroseconds(from)} to ${formatMicroseconds(to)}. Arrows left and right move, up and down zoom.`}
        tabIndex={0}
        onKeyDown={onKeyDown}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          setBrush({ start: find(event), end: find(event) });
        }}
        onPointerMove={(event) => brush && setBrush({ ...brush, end: find(event) })}
        onPointerUp={endBrush}
        onPointerCancel={() => setBrush(null)}
      >
        {findTicks(scale, zoom, 6).map((tick) => (
          <span key={tick.time} className="timeline-tick muted" style={{ left: percent(tick.position) }}>
            {tick.time === 0 ? "0" : formatMicroseconds(tick.time)}
          </span>
        ))}
        {gapsInView(scale, zoom).map((gap) => (
          <span
            key={gap.from}
            className="timeline-break"
            style={{ left: percent(gap.start), width: percent(gap.end - gap.start) }}
            title={`${formatDuration((gap.to - gap.from) / 1000)} in which nothing ran`}
          >
            {formatDuration((gap.to - gap.from) / 1000)}
          </span>
        ))}
        {brush && (
          <span
            className="timeline-brush"
            style={{
              left: percent(Math.min(brush.start, brush.end)),
              width: percent(Math.abs(brush.end - brush.start)),
            }}
          />
        )}
      </div>
    </div>
  );
}
