// The event that all tabs of a run show. It is in the URL as `at`; without it they show the newest one.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { graphQuery } from "../../api/queries";
import { useRun } from "../context";
import { useLogVersion } from "../liveRun";
import type { RunView } from "../runView";

/** The event to show; undefined if it is the newest one. */
export function findCursor(at: number | undefined, newest: number): number | undefined {
  return at !== undefined && at < newest ? Math.max(1, at) : undefined;
}

/** The view at another event; the newest one needs no parameter. */
export function withCursor(view: RunView, at: number, newest: number): RunView {
  const next = { ...view };
  delete next.at;
  const cursor = findCursor(at, newest);
  return cursor === undefined ? next : { ...next, at: cursor };
}

export function useCursor(): number | undefined {
  const { view, log } = useRun();
  useLogVersion(log);
  return findCursor(view.at, log.length);
}

/** When the event at the cursor was recorded; undefined without a cursor, null until the event is loaded. */
export function useCursorTime(): string | null | undefined {
  const { log } = useRun();
  const at = useCursor();
  useEffect(() => {
    if (at !== undefined) log.load(at, at);
  }, [log, at]);
  return at === undefined ? undefined : (log.get(at)?.recorded_at ?? null);
}

/** The graph at the cursor. */
export function useRunGraph() {
  const { detail } = useRun();
  return useQuery({ ...graphQuery(detail.execution_id, useCursor()), placeholderData: keepPreviousData });
}
