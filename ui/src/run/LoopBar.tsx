// The progress of a loop: a bar of succeeded, failed and running iterations, and the same in words.
import type { LoopCounts } from "../api/types";

export function LoopBar({ loop }: { loop: LoopCounts }) {
  const done = loop.succeeded + loop.failed;
  const total = loop.total ?? done + loop.in_flight;
  const share = (count: number) => ({ width: `${total > 0 ? (count / total) * 100 : 0}%` });
  const words = describeLoop(loop);
  return (
    <div className="loop">
      <div className="loop-bar" role="img" aria-label={words}>
        <span className="fill-done" style={share(loop.succeeded)} />
        <span className="fill-failed" style={share(loop.failed)} />
        <span className="fill-running" style={share(loop.in_flight)} />
      </div>
      <p className="loop-words" aria-hidden="true">
        <span className="tone-done">✓ {loop.succeeded.toLocaleString("en")}</span>
        {loop.failed > 0 && <span className="tone-failed">✗ {loop.failed.toLocaleString("en")}</span>}
        {loop.retries > 0 && <span className="tone-retrying">↻ {loop.retries.toLocaleString("en")}</span>}
        {loop.in_flight > 0 && <span className="tone-running">● {loop.in_flight.toLocaleString("en")}</span>}
        <span className="grow" />
        <span className="muted">{loop.total === null ? "" : `of ${loop.total.toLocaleString("en")}`}</span>
      </p>
    </div>
  );
}

export function describeLoop(loop: LoopCounts): string {
  const parts = [
    `${loop.succeeded} succeeded`,
    `${loop.failed} failed`,
    `${loop.in_flight} in progress`,
    `${loop.retries} retries`,
  ];
  return `${loop.total === null ? "" : `${loop.total} iterations: `}${parts.join(", ")}`;
}
