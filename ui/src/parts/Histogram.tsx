// Runs over time by status. A click on a bar filters; arrow keys move between bars.
import { useState } from "react";
import type { Facets, HistogramBucket } from "../api/types";
import { lookOf } from "../lib/status";
import { formatDate } from "../lib/time";
import "./histogram.css";

/** Statuses from the bottom of a bar to its top. */
const order = ["COMPLETED", "RUNNING", "PAUSED", "CANCELLED", "FAILED"];

interface HistogramProps {
  facets: Facets;
  onPick: (from: string, to: string) => void;
}

export function Histogram({ facets, onPick }: HistogramProps) {
  const { buckets, bucket_seconds: seconds, from, to } = facets.histogram;
  const [active, setActive] = useState(0);
  const [shown, setShown] = useState<number | null>(null);
  const highest = Math.max(1, ...buckets.map(countRuns));
  const focusBar = (bars: HTMLElement | null, index: number) => {
    const next = Math.max(0, Math.min(buckets.length - 1, index));
    setActive(next);
    (bars?.children[next] as HTMLElement | undefined)?.focus();
  };
  const shownBucket = shown === null ? undefined : buckets[shown];

  return (
    <figure className="histogram" aria-label="Runs over time">
      <div className="histogram-bars" role="group" aria-label="Runs over time" onMouseLeave={() => setShown(null)}>
        {buckets.map((bucket, index) => (
          <button
            key={bucket.at}
            type="button"
            className="histogram-bar"
            tabIndex={index === active ? 0 : -1}
            aria-label={describeBucket(bucket, seconds)}
            onMouseEnter={() => setShown(index)}
            onFocus={() => setShown(index)}
            onBlur={() => setShown(null)}
            onClick={() => onPick(bucket.at, endOf(bucket, seconds))}
            onKeyDown={(event) => {
              const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
              if (step) focusBar(event.currentTarget.parentElement, index + step);
            }}
          >
            {order.map((status) => {
              const count = bucket.counts[status] ?? 0;
              const share = { height: `max(2px, ${(count / highest) * 100}%)` };
              return count > 0 && <span key={status} className={`fill-${lookOf(status).mark}`} style={share} />;
            })}
          </button>
        ))}
      </div>
      <figcaption className="histogram-axis muted">
        <span>{showMoment(from)}</span>
        <span aria-hidden="true">
          {shownBucket ? describeBucket(shownBucket, seconds) : `up to ${highest} in ${showSpan(seconds)}`}
        </span>
        <span>{showMoment(to)}</span>
      </figcaption>
    </figure>
  );
}

function countRuns(bucket: HistogramBucket): number {
  return Object.values(bucket.counts).reduce((sum, count) => sum + count, 0);
}

function endOf(bucket: HistogramBucket, seconds: number): string {
  return new Date(Date.parse(bucket.at) + seconds * 1000).toISOString();
}

function describeBucket(bucket: HistogramBucket, seconds: number): string {
  const counts = Object.entries(bucket.counts).map(([status, count]) => `${count} ${lookOf(status).word}`);
  return `${showMoment(bucket.at)}, ${showSpan(seconds)}: ${counts.join(", ") || "no runs"}`;
}

function showMoment(text: string): string {
  const at = new Date(text);
  const clock = at.toTimeString().slice(0, 5);
  return formatDate(at) === formatDate(new Date()) ? clock : `${formatDate(at)} ${clock}`;
}

function showSpan(seconds: number): string {
  if (seconds % 86_400 === 0) return `${seconds / 86_400}d`;
  if (seconds % 3600 === 0) return `${seconds / 3600}h`;
  return seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`;
}
