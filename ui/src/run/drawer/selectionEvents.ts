// The events of what is selected, up to the cursor. The outline has those of steps, and the ends of failed iterations. The
// server finds all events of an iteration.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { outlineQuery, readEventPage } from "../../api/queries";
import type { LogEvent } from "../../api/types";
import type { Selection } from "../runView";

export function useSelectionEvents(id: string, selection: Selection, at: number | undefined) {
  const { step, task, iteration } = selection;
  const outline = useQuery(outlineQuery(id));
  const found = useQuery({ ...iterationQuery(id, step, iteration ?? 0, at), enabled: iteration !== undefined });
  const events = useMemo(() => {
    const all = (iteration === undefined ? outline.data : found.data) ?? [];
    return all.filter((event) => (at === undefined || event.seq <= at) && belongsTo(event, step, task));
  }, [found.data, outline.data, step, task, iteration, at]);
  const source = iteration === undefined ? outline : found;
  return { events, isLoading: source.isPending, error: source.error, retry: () => void source.refetch() };
}

function belongsTo(event: LogEvent, step: string, task: string | undefined): boolean {
  return event.step === step && (task === undefined || event.task_label === task);
}

const eventsMax = 1000;

const iterationQuery = (id: string, step: string, iteration: number, at: number | undefined) =>
  queryOptions({
    queryKey: ["run", id, "iteration", step, iteration, at],
    queryFn: async () => {
      const until = at === undefined ? {} : { until_seq: at };
      return (await readEventPage(id, { step, iteration, limit: eventsMax, ...until })).events;
    },
  });
