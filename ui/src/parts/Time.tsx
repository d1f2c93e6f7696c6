// Times that show how long ago they are, with UTC on hover, and durations that grow while something runs.
import { useSyncExternalStore } from "react";
import { formatAge, formatDuration, formatUtc, runDuration } from "../lib/time";
import { Tip } from "./Tip";

let now = new Date();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** The current time, once a second while something on the page shows it. */
export function useNow(): Date {
  return useSyncExternalStore(subscribe, () => now);
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  if (listeners.size === 1) {
    now = new Date();
    timer = setInterval(tick, 1000);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) clearInterval(timer);
  };
}

function tick() {
  if (document.hidden) return;
  now = new Date();
  listeners.forEach((listener) => listener());
}

export function Age({ at }: { at: string }) {
  const current = useNow();
  return (
    <Tip text={formatUtc(at)}>
      <time dateTime={at}>{formatAge(new Date(at), current)}</time>
    </Tip>
  );
}

/** How long until a time: `in 12s`. */
export function TimeLeft({ until }: { until: string }) {
  const current = useNow();
  const ms = new Date(until).getTime() - current.getTime();
  return (
    <Tip text={formatUtc(until)}>
      <time dateTime={until}>{ms < 1000 ? "now" : `in ${formatDuration(Math.floor(ms / 1000) * 1000)}`}</time>
    </Tip>
  );
}

export function RunTook({ run }: { run: { started_at: string; finished_at?: string | null } }) {
  return run.finished_at ? <>{formatDuration(runDuration(run, now))}</> : <GrowingDuration run={run} />;
}

function GrowingDuration({ run }: { run: { started_at: string } }) {
  const current = useNow();
  return <>{formatDuration(Math.max(0, Math.floor(runDuration(run, current) / 1000) * 1000))}</>;
}
