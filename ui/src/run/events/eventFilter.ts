// Which events the events tab shows: those of some types, and those of the selection, up to the cursor.
import { useMemo } from "react";
import type { EventParams } from "../../api/types";
import { omitUndefined } from "../../lib/search";
import { useRun } from "../context";
import { readSelection, type RunView } from "../runView";
import { useCursor } from "../time/cursor";

/** The types that the view names. */
export function readTypes(view: RunView): string[] {
  return view.type?.split(",").filter(Boolean) ?? [];
}

/** The view with other types of events. The event that was open may not be among them. */
export function withTypes(view: RunView, types: string[]): RunView {
  const next = { ...view };
  delete next.type;
  delete next.seq;
  return types.length > 0 ? { ...next, type: types.join(",") } : next;
}

/** What the server filters by; null if all events are shown. */
export function findEventFilter(view: RunView, at: number | undefined): EventParams | null {
  const place = view.from === "selection" ? readSelection(view) : null;
  if (!view.type && !place) return null;
  const { step, task, iteration } = place ?? {};
  return omitUndefined({ type: view.type, step, task, iteration, until_seq: at });
}

export function useEventFilter(): EventParams | null {
  const { view } = useRun();
  const at = useCursor();
  // The selection is read from the view.
  return useMemo(() => findEventFilter(view, at), [view.type, view.from, view.step, view.task, view.iteration, at]);
}
