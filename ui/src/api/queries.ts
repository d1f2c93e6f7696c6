// What the views read from the API, as options for TanStack Query.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, apiUrl, readData, send } from "./client";
import { sessionReadDelay } from "../lib/signIn";
import type {
  FailureGroup,
  InputForm,
  Json,
  LogEvent,
  LogLine,
  LogParams,
  OutlinePage,
  ReferenceEntry,
  RunFilterParams,
  RunGraph,
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

export const runQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "detail"],
    queryFn: ({ signal }) => readData(api.GET("/api/executions/{id}", { params: { path: { id } }, signal })),
  });

export const graphQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "graph"],
    queryFn: async ({ signal }) =>
      (await readData(api.GET("/api/executions/{id}/graph", { params: { path: { id } }, signal }))) as RunGraph,
  });

export const failuresQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "failures"],
    queryFn: async ({ signal }) => {
      const list = await readData(api.GET("/api/executions/{id}/failures", { params: { path: { id } }, signal }));
      return list.groups as FailureGroup[];
    },
  });

/** Reads a page of the log of a run. */
export async function readEventPage(id: string, query: { after_seq?: number; type?: string; limit?: number }) {
  const page = await readData(api.GET("/api/executions/{id}/events", { params: { path: { id }, query } }));
  return { events: page.events as unknown as LogEvent[], nextAfterSeq: page.next_after_seq ?? null };
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
        events.push(...(outline.events as unknown as LogEvent[]));
        for (const loop of outline.loops) events.push(...(loop.events as unknown as LogEvent[]));
        after = outline.next_after_seq ?? undefined;
      }
      return events.sort((first, second) => first.seq - second.seq);
    },
  });

/** Reads lines that the tasks of a run wrote. */
export async function readLogs(id: string, query: LogParams) {
  const page = await readData(api.GET("/api/executions/{id}/logs", { params: { path: { id }, query } }));
  return { lines: page.lines as unknown as LogLine[], nextAfter: page.next_after };
}

export const resultListQuery = (id: string, query: { step: string; task?: string; iteration?: number }) =>
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

export const inputFormQuery = (path: string) =>
  queryOptions({
    queryKey: ["inputs", path],
    queryFn: async ({ signal }) => {
      const form = await readData(api.GET("/api/catalog/{path}/ui_schema", { params: { path: { path } }, signal }));
      return form as unknown as InputForm;
    },
  });
