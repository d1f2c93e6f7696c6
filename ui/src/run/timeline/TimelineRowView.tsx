// A row of the timeline: its name, and its bars on the time axis.
import type { TimelineLoop } from "../../api/types";
import { lookOf } from "../../lib/status";
import { readMicroseconds } from "../../lib/time";
import { IconButton } from "../../parts/Button";
import { MarkIcon } from "../../parts/StatusMark";
import { Tip } from "../../parts/Tip";
import { useRun } from "../context";
import { formatAddress, readSelection } from "../runView";
import type { Bar, TimelineRow } from "./timelineRows";
import { toPosition, type TimeScale, type Zoom } from "./timeScale";

interface TimelineRowViewProps {
  row: TimelineRow;
  index: number;
  top: number;
  height: number;
  scale: TimeScale;
  zoom: Zoom;
  onToggle: (key: string) => void;
}

export function TimelineRowView({ row, index, top, height, scale, zoom, onToggle }: TimelineRowViewProps) {
  const { view, select } = useRun();
  const selection = readSelection(view);
  const isSelected = selection !== null && formatAddress(selection) === formatAddress(row.selection);
  const place = (time: number) => (toPosition(scale, time) - zoom.start) / (zoom.end - zoom.start);
  return (
    <li
      className="timeline-row"
      data-index={index}
      data-depth={row.depth}
      data-on-path={row.isCritical || undefined}
      style={{ top, height }}
    >
      <div className="timeline-label" data-loop={row.loop ? true : undefined}>
        {row.loop && (
          <IconButton
            isSmall
            icon={row.isOpen ? "down" : "right"}
            label={row.isOpen ? "Hide iterations" : `Show slow and failed iterations of ${row.label}`}
            aria-expanded={row.isOpen}
            disabled={row.loop.iterations.length === 0}
            onClick={() => onToggle(row.key)}
          />
        )}
        <Tip text={row.words} side="right">
          <button
            type="button"
            className="timeline-open truncate"
            aria-current={isSelected}
            onClick={() => select(row.selection)}
          >
            <span className="visually-hidden">{row.words}</span>
            <MarkIcon mark={lookOf(row.status).mark} />
            <span className="mono truncate" aria-hidden="true">
              {row.label}
            </span>
            {row.isCritical && row.depth === 0 && (
              <span className="timeline-critical" aria-hidden="true">
                critical
              </span>
            )}
          </button>
        </Tip>
      </div>
      <Tip text={row.words}>
        <div className="timeline-track" aria-hidden="true" onClick={() => select(row.selection)}>
          {row.bars.map((bar) => (
            <BarView key={`${bar.from} ${bar.isQueued}`} bar={bar} place={place} isBand={!!row.loop && !bar.isQueued} />
          ))}
          {row.loop && <Band loop={row.loop} bars={row.bars} place={place} />}
          {row.retries.map((time) => (
            <span key={time} className="timeline-retry tone-retrying" style={{ left: `${place(time) * 100}%` }}>
              ↻
            </span>
          ))}
        </div>
      </Tip>
    </li>
  );
}

type Place = (time: number) => number;

function BarView({ bar, place, isBand }: { bar: Bar; place: Place; isBand: boolean }) {
  const start = Math.max(-0.01, place(bar.from));
  const end = Math.min(1.01, place(bar.to));
  if (end < 0 || start > 1) return null;
  const look = bar.isQueued ? "bar-queued" : isBand ? "bar-band" : `fill-${lookOf(bar.status).mark}`;
  return (
    <span
      className={`timeline-bar ${look}`}
      style={{ left: `min(${start * 100}%, calc(100% - 2px))`, width: `max(2px, ${(end - start) * 100}%)` }}
    />
  );
}

const bandHeight = 20;
const bandWidth = 1000;

/** How many iterations ended over time: succeeded from below, failed on top. */
function Band({ loop, bars, place }: { loop: TimelineLoop; bars: Bar[]; place: Place }) {
  const ran = bars.find((bar) => !bar.isQueued);
  if (!ran) return null;
  const { success, error } = loop.band;
  const counts = Array.from({ length: Math.max(success.length, error.length) }, (_, bin) => ({
    bin,
    succeeded: success[bin] ?? 0,
    failed: error[bin] ?? 0,
  }));
  const highest = Math.max(1, ...counts.map(({ succeeded, failed }) => succeeded + failed));
  // The band starts with the loop, which is the start of the bar of its step.
  const start = ran.from;
  const toHeight = (count: number) => (count === 0 ? 0 : Math.max(2, (count / highest) * bandHeight));
  return (
    <svg
      className="timeline-band"
      viewBox={`0 0 ${bandWidth} ${bandHeight}`}
      preserveAspectRatio="none"
      data-from={readMicroseconds(loop.from)}
    >
      {counts
        .filter(({ succeeded, failed }) => succeeded + failed > 0)
        .map(({ bin, succeeded, failed }) => {
          const x = place(start + bin * loop.bin_us) * bandWidth;
          const width = Math.max(1, place(start + (bin + 1) * loop.bin_us) * bandWidth - x);
          const low = toHeight(succeeded);
          const high = Math.min(bandHeight - (failed > 0 ? 2 : 0), low);
          return (
            <g key={bin}>
              <rect className="band-success" x={x} width={width} y={bandHeight - high} height={high} />
              <rect
                className="band-error"
                x={x}
                width={width}
                y={Math.max(0, bandHeight - high - toHeight(failed))}
                height={Math.min(bandHeight - high, toHeight(failed))}
              />
            </g>
          );
        })}
    </svg>
  );
}
