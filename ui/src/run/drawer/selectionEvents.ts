// The events of what is selected. The outline has those of steps, and the ends of failed iterations. All events of an
// iteration are found around its results.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, readData } from "../../api/client";
import { outlineQuery, readEventPage } from "../../api/queries";
import type { LogEvent } from "../../api/types";
import type { Selection } from "../runView";

const windowSize = 500;
const windowsMax = 6;

export function useSelectionEvents(id: string, selection: Selection) {
  const { step, task, iteration } = selection;
  const outline = useQuery(outlineQuery(id));
  const found = useQuery({ ...iterationQuery(id, step, iteration ?? 0), enabled: iteration !== undefined });
  const events = useMemo(() => {
    const all = found.data && found.data.length > 0 ? found.data : (outline.data ?? []);
    return all.filter((event) => belongsTo(event, step, task, iteration));
  }, [found.data, outline.data, step, task, iteration]);
  return {
    events,
    isLoading: outline.isPending || (iteration !== undefined && found.isPending),
    error: outline.error ?? found.error,
    retry: () => void (outline.error ? outline.refetch() : found.refetch()),
  };
}

function belongsTo(event: LogEvent, step: string, task: string | undefined, iteration: number | undefined): boolean {
  return (
    event.step === step &&
    (task === undefined || event.task_label === task) &&
    (iteration === undefined || event.iteration === iteration)
  );
}

const iterationQuery = (id: string, step: string, iteration: number) =>
  queryOptions({
    queryKey: ["run", id, "iteration", step, iteration],
    queryFn: async ({ signal }) => {
      const params = { path: { id }, query: { step, iteration } };
      const { results } = await readData(api.GET("/api/result/{id}/list", { params, signal }));
      const last = results.at(-1);
      return last ? readBack(id, last.seq + windowSize / 10, step, iteration) : [];
    },
  });

/** Reads windows of the log backwards from an event until the start of the iteration is among them. */
async function readBack(id: string, end: number, step: string, iteration: number): Promise<LogEvent[]> {
  const events: LogEvent[] = [];
  let to = end;
  for (let count = 0; count < windowsMax && to > 0; count += 1) {
    const after = Math.max(0, to - windowSize);
    const page = await readEventPage(id, { after_seq: after, limit: to - after });
    const own = page.events.filter((event) => belongsTo(event, step, undefined, iteration));
    events.unshift(...own);
    if (own.some((event) => event.event_type === "loop.iteration.started")) break;
    to = after;
  }
  return events;
}
