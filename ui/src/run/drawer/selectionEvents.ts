// The events of what is selected. The outline has those of steps and of failed iterations; those of any other
// iteration are found through its results.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, readData } from "../../api/client";
import { outlineQuery, readEventPage } from "../../api/queries";
import type { LogEvent } from "../../api/types";
import type { Selection } from "../runView";

const eventsBefore = 150;
const eventsMax = 600;

export function useSelectionEvents(id: string, selection: Selection) {
  const { step, task, iteration } = selection;
  const outline = useQuery(outlineQuery(id));
  const known = useMemo(
    () => outline.data?.filter((event) => belongsTo(event, step, task, iteration)) ?? [],
    [outline.data, step, task, iteration],
  );
  const isMissing = outline.isSuccess && iteration !== undefined && known.length === 0;
  const found = useQuery({ ...iterationQuery(id, step, iteration ?? 0), enabled: isMissing });
  const events = isMissing ? (found.data?.filter((event) => belongsTo(event, step, task, iteration)) ?? []) : known;
  return {
    events,
    isLoading: outline.isPending || (isMissing && found.isPending),
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
      if (!last) return [];
      const after = Math.max(0, (results[0]?.seq ?? last.seq) - eventsBefore);
      const limit = Math.min(eventsMax, last.seq - after + eventsBefore);
      const { events } = await readEventPage(id, { after_seq: after, limit });
      return events;
    },
  });
