// What the views read from the API, as options for TanStack Query.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { isObject, parseExact, type ExactObject } from "../lib/exactJson";
import { omitUndefined } from "../lib/search";
import { sessionReadDelay } from "../lib/signIn";
import { api, apiUrl, rawBody, readData, send } from "./client";
import type {
  EventParams,
  CellParams,
  DurationParams,
  FailureGroup,
  InboxEntry,
  InboxFilterParams,
  InputForm,
  Json,
  LogEvent,
  LogLine,
  LogParams,
  LoopCells,
  LoopDurations,
  OutlinePage,
  PlaybookDiff,
  PlaybookVersionGraph,
  RecentRuns,
  ReferenceEntry,
  RerunPreview,
  RunFilterParams,
  RunGraph,
  RunState,
  Timeline,
} from "./types";

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => readData(api.GET("/api/session", { signal })),
  staleTime: 60_000,
  refetchInterval: ({ state }) => sessionReadDelay(state.data?.expires_at, Date.now()),
});

export const signInFailureQuery = (code: string) =>
  queryOptions({
    queryKey: ["sign-in failure", code],
    queryFn: ({ signal }) =>
      readData(api.GET("/api/session/oidc/failures/{code}", { params: { path: { code } }, signal })),
    staleTime: Infinity,
  });

export const runsQuery = (filters: RunFilterParams) =>
  infiniteQueryOptions({
    queryKey: ["runs", filters],
    queryFn: ({ pageParam, signal }) => {
      const query = { ...filters, limit: 100, ...(pageParam ? { cursor: pageParam } : {}) };
      return readData(api.GET("/api/executions", { params: { query }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });

export const newestRunsQuery = (filters: RunFilterParams, limit: number) =>
  queryOptions({
    queryKey: ["newest runs", filters, limit],
    queryFn: ({ signal }) => readData(api.GET("/api/executions", { params: { query: { ...filters, limit } }, signal })),
  });

export const facetsQuery = (filters: RunFilterParams) =>
  queryOptions({
    queryKey: ["facets", filters],
    queryFn: ({ signal }) => readData(api.GET("/api/executions/facets", { params: { query: filters }, signal })),
  });

export const inboxQuery = (filters: InboxFilterParams, limit = 100) =>
  infiniteQueryOptions({
    queryKey: ["inbox", "list", filters, limit],
    queryFn: ({ pageParam, signal }) => {
      const query = { ...filters, limit, ...(pageParam ? { cursor: pageParam } : {}) };
      return readData(api.GET("/api/inbox", { params: { query }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });

export const inboxCountQuery = queryOptions({
  queryKey: ["inbox", "count"],
  queryFn: ({ signal }) => readData(api.GET("/api/inbox/count", { signal })),
});

/** What has waited longest in all runs. */
export const longestWaitsQuery = (limit: number) =>
  queryOptions({
    queryKey: ["inbox", "longest", limit],
    queryFn: async ({ signal }) => {
      const query = { order: "oldest", limit } as const;
      const page = await readData(api.GET("/api/inbox", { params: { query }, signal }));
      return page.waits as InboxEntry[];
    },
  });

/** What a run waits for, the longest wait first. */
export const waitsOfRunQuery = (id: string) =>
  queryOptions({
    queryKey: ["inbox", "run", id],
    queryFn: async ({ signal }) => {
      const query = { execution_id: id, order: "oldest", limit: 1000 } as const;
      const page = await readData(api.GET("/api/inbox", { params: { query }, signal }));
      return page.waits as InboxEntry[];
    },
  });

export const runQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "detail"],
    queryFn: ({ signal }) => readData(api.GET("/api/executions/{id}", { params: { path: { id } }, signal })),
  });

/** The graph of a run: now, or at an event. */
export const graphQuery = (id: string, at?: number) =>
  queryOptions({
    queryKey: at === undefined ? ["run", id, "graph"] : ["run", id, "graph at", at],
    queryFn: async ({ signal }) => {
      const params = { path: { id }, query: at === undefined ? {} : { as_of_seq: at } };
      return (await readData(api.GET("/api/executions/{id}/graph", { params, signal }))) as RunGraph;
    },
    ...(at === undefined ? {} : { staleTime: Infinity, gcTime: 60_000 }),
  });

/** The state of a run at an event or the newest one, and its difference from another event. */
export const stateQuery = (id: string, at?: number, compare?: number) =>
  queryOptions({
    queryKey: ["run", id, "state", at ?? "newest", compare],
    queryFn: async ({ signal }) => {
      const params = { path: { id }, query: omitUndefined({ at, compare }) };
      return (await readData(api.GET("/api/executions/{id}/state", { params, signal }))) as RunState;
    },
    ...(at === undefined ? {} : { staleTime: Infinity }),
    gcTime: 60_000,
  });

export const stateCheckQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "state check"],
    queryFn: ({ signal }) =>
      readData(api.GET("/api/executions/{id}/state/check", { params: { path: { id } }, signal })),
    staleTime: Infinity,
    retry: false,
  });

export const failuresQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "failures"],
    queryFn: async ({ signal }) => {
      const list = await readData(api.GET("/api/executions/{id}/failures", { params: { path: { id } }, signal }));
      return list.groups as FailureGroup[];
    },
  });

export const cellsQuery = (id: string, step: string, query: CellParams) =>
  queryOptions({
    queryKey: ["run", id, "cells", step, query],
    queryFn: async ({ signal }) => {
      const params = { path: { id, step }, query };
      const read = readData(api.GET("/api/executions/{id}/loops/{step}/cells", { params, signal }));
      return (await read) as LoopCells;
    },
  });

export const durationsQuery = (id: string, step: string, query: DurationParams) =>
  queryOptions({
    queryKey: ["run", id, "durations", step, query],
    queryFn: async ({ signal }) => {
      const params = { path: { id, step }, query };
      const read = readData(api.GET("/api/executions/{id}/loops/{step}/durations", { params, signal }));
      return (await read) as LoopDurations;
    },
  });

export const timelineQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "timeline"],
    queryFn: async ({ signal }) =>
      (await readData(api.GET("/api/executions/{id}/timeline", { params: { path: { id } }, signal }))) as Timeline,
  });

/** Reads a page of the log of a run. */
export async function readEventPage(id: string, query: EventParams) {
  const page = await readData(api.GET("/api/executions/{id}/events", { params: { path: { id }, query } }));
  return { events: page.events as LogEvent[], nextAfterSeq: page.next_after_seq ?? null };
}

const outlinePagesMax = 20;

/** The events of a run that are not of iterations, and those of failed iterations. */
export const outlineQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "outline"],
    queryFn: async ({ signal }) => {
      const events: LogEvent[] = [];
      let after: number | undefined = 0;
      for (let page = 0; page < outlinePagesMax && after !== undefined; page += 1) {
        const query: { after_seq: number; limit: number } = { after_seq: after, limit: 1000 };
        const outline: OutlinePage = await readData(
          api.GET("/api/executions/{id}/outline", { params: { path: { id }, query }, signal }),
        );
        events.push(...(outline.events as LogEvent[]));
        for (const loop of outline.loops) events.push(...(loop.events as LogEvent[]));
        after = outline.next_after_seq ?? undefined;
      }
      return events.sort((first, second) => first.seq - second.seq);
    },
  });

/** Reads lines that the tasks of a run wrote. */
export async function readLogs(id: string, query: LogParams) {
  const page = await readData(api.GET("/api/executions/{id}/logs", { params: { path: { id }, query } }));
  const { next_after: nextAfter, has_earlier: hasEarlier = false } = page;
  return { lines: page.lines as LogLine[], nextAfter, hasEarlier };
}

export const resultListQuery = (
  id: string,
  query: { step: string; task?: string; iteration?: number; until_seq?: number },
) =>
  infiniteQueryOptions({
    queryKey: ["run", id, "results", query],
    queryFn: async ({ pageParam, signal }) => {
      const params = { path: { id }, query: { ...query, after_seq: pageParam, limit: 100 } };
      return readData(api.GET("/api/result/{id}/list", { params, signal }));
    },
    initialPageParam: 0,
    getNextPageParam: (page) => page.next_after_seq ?? undefined,
  });

/** Where the body of a result can be read, up to a number of bytes. */
export function resultUrl(id: string, entry: ReferenceEntry): URL {
  const url = apiUrl(`/api/result/${id}/${encodeURIComponent(entry.step)}`);
  url.searchParams.set("run", String(entry.run));
  if (entry.task) url.searchParams.set("task", entry.task);
  if (entry.iteration != null) url.searchParams.set("iteration", String(entry.iteration));
  if (entry.page != null) url.searchParams.set("page", String(entry.page));
  url.searchParams.set("attempt", String(entry.attempt));
  return url;
}

export const resultBodyQuery = (url: URL) =>
  queryOptions({
    queryKey: ["result body", url.href],
    queryFn: async ({ signal }) => {
      const response = await send(new Request(url, { signal }));
      return (await response.json()) as Json;
    },
    staleTime: Infinity,
    gcTime: 60_000,
  });

export const catalogQuery = queryOptions({
  queryKey: ["catalog"],
  queryFn: ({ signal }) => readData(api.POST("/api/catalog/list", { signal })),
});

export const playbookQuery = (path: string, version?: number) =>
  queryOptions({
    queryKey: ["playbook", path, version ?? "latest"],
    queryFn: ({ signal }) => {
      const body = { path, ...(version === undefined ? {} : { version }) };
      return readData(api.POST("/api/catalog/resource", { body, signal }));
    },
    ...(version === undefined ? {} : { staleTime: Infinity }),
  });

/** The language of playbooks, which depends on the version of the server. */
export const languageQuery = queryOptions({
  queryKey: ["language"],
  queryFn: ({ signal }) => readData(api.GET("/api/language", { signal })),
  staleTime: Infinity,
});

/** The versions of a playbook, newest first, in pages. */
export const versionsQuery = (path: string) =>
  infiniteQueryOptions({
    queryKey: ["playbook", path, "versions"],
    queryFn: ({ pageParam, signal }) => {
      const params = { path: { path }, query: { limit: 50, ...(pageParam === null ? {} : { before: pageParam }) } };
      return readData(api.GET("/api/catalog/{path}/versions", { params, signal }));
    },
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_before ?? undefined,
  });

export const diffQuery = (path: string, from: number, to: number) =>
  queryOptions({
    queryKey: ["playbook", path, "diff", from, to],
    queryFn: async ({ signal }) => {
      const params = { path: { path }, query: { from, to } };
      return (await readData(api.GET("/api/catalog/{path}/diff", { params, signal }))) as PlaybookDiff;
    },
    staleTime: Infinity,
  });

export const playbookGraphQuery = (path: string, version: number) =>
  queryOptions({
    queryKey: ["playbook", path, "graph", version],
    queryFn: async ({ signal }) => {
      const params = { path: { path }, query: { version } };
      return (await readData(api.GET("/api/catalog/{path}/graph", { params, signal }))) as PlaybookVersionGraph;
    },
    staleTime: Infinity,
  });

export const callersQuery = (path: string) =>
  queryOptions({
    queryKey: ["playbook", path, "callers"],
    queryFn: ({ signal }) => readData(api.GET("/api/catalog/{path}/callers", { params: { path: { path } }, signal })),
  });

const recentPathsMax = 100;

/** The recent runs of playbooks, by path. */
export const recentRunsQuery = (paths: string[]) =>
  queryOptions({
    queryKey: ["recent runs", paths],
    queryFn: async ({ signal }) => {
      const runs = new Map<string, RecentRuns>();
      for (let start = 0; start < paths.length; start += recentPathsMax) {
        const body = { paths: paths.slice(start, start + recentPathsMax) };
        const { playbooks } = await readData(api.POST("/api/catalog/recent_runs", { body, signal }));
        for (const entry of playbooks as RecentRuns[]) runs.set(entry.path, entry);
      }
      return runs;
    },
  });

/** The form of the inputs of a version; integers of 64 bits are exact. */
export const inputFormQuery = (path: string, version: number) =>
  queryOptions({
    queryKey: ["playbook", path, "inputs", version],
    queryFn: async ({ signal }) => {
      const params = { path: { path }, query: { version } };
      const text = await readData(
        api.GET("/api/catalog/{path}/ui_schema", { params, signal, parseAs: "text" as const }),
      );
      return parseExact(text) as unknown as InputForm;
    },
    staleTime: Infinity,
  });

/** The inputs of a run, as its first event records them. */
export const runInputsQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "inputs"],
    queryFn: async ({ signal }): Promise<ExactObject> => {
      const params = { path: { id }, query: { limit: 1 } };
      const text = await readData(api.GET("/api/executions/{id}/events", { params, signal, parseAs: "text" as const }));
      const page = parseExact(text) as { events: { payload: ExactObject }[] };
      const inputs = page.events[0]?.payload["workload"];
      return isObject(inputs) ? inputs : {};
    },
    staleTime: Infinity,
  });

/** What a rerun would do. The options are those of the request, as JSON. */
export const rerunPreviewQuery = (id: string, options: string) =>
  queryOptions({
    queryKey: ["run", id, "rerun preview", options],
    queryFn: async ({ signal }) => {
      const request = { params: { path: { id } }, ...rawBody(options), signal };
      return (await readData(api.POST("/api/executions/{id}/rerun/preview", request))) as RerunPreview;
    },
    retry: false,
  });
