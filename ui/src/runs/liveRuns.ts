// Live changes of the list of runs: rows change in place, and new runs wait until the reader wants them.
import { useQueryClient, type InfiniteData } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import type { RunFilterParams } from "../api/types";
import { apiUrl } from "../api/client";
import { runsQuery } from "../api/queries";
import { followStream, type StreamMessage } from "../api/sse";
import type { Run } from "../api/types";

export interface RunPage {
  executions: Run[];
  next_cursor?: string | null;
}

/** What a batch of messages changes. */
export interface RunChanges {
  changed: Map<string, Run>;
  gone: Set<string>;
}

export function readRunChanges(messages: StreamMessage[]): RunChanges {
  const changed = new Map<string, Run>();
  const gone = new Set<string>();
  for (const message of messages) {
    if (message.event === "execution") {
      const run = JSON.parse(message.data) as Run;
      changed.set(run.execution_id, run);
      gone.delete(run.execution_id);
    } else if (message.event === "gone") {
      const { execution_id: id } = JSON.parse(message.data) as { execution_id: string };
      gone.add(id);
      changed.delete(id);
    }
  }
  return { changed, gone };
}

/** The pages with the changes applied, and the runs that are newer than all of them. */
export function applyRunChanges(pages: RunPage[], { changed, gone }: RunChanges): { pages: RunPage[]; fresh: Run[] } {
  const newest = pages[0]?.executions[0];
  const known = new Set(pages.flatMap((page) => page.executions.map((run) => run.execution_id)));
  const next = pages.map((page) => ({
    ...page,
    executions: page.executions
      .filter((run) => !gone.has(run.execution_id))
      .map((run) => changed.get(run.execution_id) ?? run),
  }));
  const fresh = [...changed.values()].filter(
    (run) => !known.has(run.execution_id) && (!newest || isNewer(run, newest)),
  );
  return { pages: next, fresh };
}

/** The pages with runs added at the top, newest first. */
export function insertRuns(pages: RunPage[], runs: Run[]): RunPage[] {
  const [first = { executions: [] }, ...rest] = pages;
  const sorted = [...runs].sort((a, b) => (isNewer(a, b) ? -1 : 1));
  return [{ ...first, executions: [...sorted, ...first.executions] }, ...rest];
}

function isNewer(run: Run, other: Run): boolean {
  const order = Date.parse(run.started_at) - Date.parse(other.started_at);
  return order === 0 ? run.execution_id > other.execution_id : order > 0;
}

/** Follows the runs that match; returns the new ones and a function that shows them. */
export function useLiveRuns(params: RunFilterParams, isLoaded: boolean, onChange: () => void) {
  const client = useQueryClient();
  const { queryKey } = runsQuery(params);
  const key = JSON.stringify(params);
  const [fresh, setFresh] = useState<ReadonlyMap<string, Run>>(new Map());

  useEffect(() => {
    setFresh(new Map());
    if (!isLoaded) return undefined;
    const url = apiUrl("/api/executions/stream");
    for (const [name, value] of Object.entries(params)) url.searchParams.set(name, value);
    return followStream({
      url,
      onMessages: (messages) => {
        const changes = readRunChanges(messages);
        const data = client.getQueryData<InfiniteData<RunPage, string>>(queryKey);
        if (!data) return;
        const { pages, fresh: found } = applyRunChanges(data.pages, changes);
        const isEmpty = data.pages.every((page) => page.executions.length === 0);
        client.setQueryData<InfiniteData<RunPage, string>>(queryKey, {
          ...data,
          pages: isEmpty ? insertRuns(pages, found) : pages,
        });
        if (!isEmpty && (found.length > 0 || changes.gone.size > 0)) {
          setFresh((known) => mergeFresh(known, found, changes.gone));
        }
        onChange();
      },
    });
    // The stream is opened again only when the filter changes.
  }, [key, isLoaded, client]);

  const showFresh = useCallback(() => {
    client.setQueryData<InfiniteData<RunPage, string>>(
      queryKey,
      (data) => data && { ...data, pages: insertRuns(data.pages, [...fresh.values()]) },
    );
    setFresh(new Map());
  }, [client, fresh, queryKey]);

  return { freshCount: fresh.size, showFresh };
}

function mergeFresh(known: ReadonlyMap<string, Run>, found: Run[], gone: Set<string>): ReadonlyMap<string, Run> {
  const next = new Map(known);
  for (const run of found) next.set(run.execution_id, run);
  for (const id of gone) next.delete(id);
  return next;
}
