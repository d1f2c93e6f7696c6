// What the pages for operators and admins read from the API, as options for TanStack Query.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, readData } from "./client";
import type { AuditFilter } from "./types";

export const credentialsQuery = queryOptions({
  queryKey: ["credentials"],
  queryFn: ({ signal }) => readData(api.GET("/api/credentials", { signal })),
});

export const credentialTypesQuery = queryOptions({
  queryKey: ["credential types"],
  queryFn: ({ signal }) => readData(api.GET("/api/credential-types", { signal })),
  staleTime: Infinity,
});

export const workersQuery = queryOptions({
  queryKey: ["workers"],
  queryFn: ({ signal }) => readData(api.GET("/api/workers", { signal })),
});

export const queueQuery = queryOptions({
  queryKey: ["queue"],
  queryFn: ({ signal }) => readData(api.GET("/api/queue", { signal })),
});

/** The commands of a run that wait for a worker. */
export const waitingQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "waiting"],
    queryFn: ({ signal }) => readData(api.GET("/api/executions/{id}/waiting", { params: { path: { id } }, signal })),
  });

export const systemQuery = queryOptions({
  queryKey: ["system"],
  queryFn: ({ signal }) => readData(api.GET("/api/system", { signal })),
});

export const tokensQuery = queryOptions({
  queryKey: ["access tokens"],
  queryFn: ({ signal }) => readData(api.GET("/api/tokens", { signal })),
});

/** The audit log from its end. */
export const auditQuery = (filter: AuditFilter, limit = 100) =>
  infiniteQueryOptions({
    queryKey: ["audit", filter, limit],
    queryFn: ({ pageParam, signal }) => {
      const query = { ...filter, limit, order: "newest" as const, ...(pageParam ? { before: pageParam } : {}) };
      return readData(api.GET("/api/audit", { params: { query }, signal }));
    },
    initialPageParam: 0,
    getNextPageParam: (page) => page.next_before ?? undefined,
  });
