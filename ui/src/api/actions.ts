// What a person can do to runs and playbooks.
import { api, rawBody, readData } from "./client";
import type { BulkAction, RunFilterParams, TextPosition, Validation } from "./types";

export const cancelRun = (id: string, reason: string, cascade: boolean) =>
  readData(
    api.POST("/api/executions/{id}/cancel", {
      params: { path: { id } },
      body: { cascade, ...(reason ? { reason } : {}) },
    }),
  );

export const pauseRun = (id: string) =>
  readData(api.POST("/api/executions/{id}/pause", { params: { path: { id } }, body: {} }));

export const resumeRun = (id: string) =>
  readData(api.POST("/api/executions/{id}/resume", { params: { path: { id } }, body: {} }));

/** Sends a signal; the payload is a JSON object. */
export const sendSignal = (id: string, name: string, payload: string) =>
  readData(api.POST("/api/executions/{id}/signal/{name}", { params: { path: { id, name } }, ...rawBody(payload) }));

export const retryRun = (id: string, version: number | undefined) =>
  readData(
    api.POST("/api/executions/{id}/retry", {
      params: { path: { id } },
      body: version === undefined ? {} : { version },
    }),
  );

export interface RerunOptions {
  from_step?: string;
  from_iteration?: number;
  version?: number;
  /** The changed inputs as a JSON object. */
  payload?: string;
}

/** The request of a rerun as JSON, with exact integers. */
export function writeRerunOptions({ payload, ...options }: RerunOptions): string {
  const entries = Object.entries(options).map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
  return `{${[...entries, ...(payload ? [`"payload":${payload}`] : [])].join(",")}}`;
}

export const rerunRun = (id: string, options: RerunOptions) =>
  readData(
    api.POST("/api/executions/{id}/rerun", { params: { path: { id } }, ...rawBody(writeRerunOptions(options)) }),
  );

/** Starts a run; the inputs are a JSON object. */
export const startRun = (path: string, version: number, inputs: string) =>
  readData(
    api.POST("/api/execute", rawBody(`{"path":${JSON.stringify(path)},"version":${version},"payload":${inputs}}`)),
  );

/** What an action would do to the runs that match and are listed; an empty list stands for all that match. */
export const previewBulkAction = (action: BulkAction, query: RunFilterParams, ids: string[]) =>
  readData(
    api.POST("/api/executions/bulk/preview", {
      params: { query: ids.length > 0 ? {} : query },
      body: { action, ...(ids.length > 0 ? { execution_ids: ids } : {}) },
    }),
  );

export const applyBulkAction = (action: BulkAction, key: string, ids: string[]) =>
  readData(api.POST("/api/executions/bulk", { body: { action, key, execution_ids: ids } }));

/** Checks a text; with the graph of what could be read, if it is asked for. */
export const validatePlaybook = async (content: string, graph: boolean) =>
  (await readData(api.POST("/api/catalog/playbooks/validate", { body: { content, graph } }))) as Validation;

/** Registers a text, by default under the path in its metadata. */
export const registerPlaybook = (content: string, path?: string) =>
  readData(api.POST("/api/catalog/register", { body: { content, ...(path === undefined ? {} : { path }) } }));

export const completeText = (body: TextPosition) => readData(api.POST("/api/language/complete", { body }));

export const describeWord = (body: TextPosition) => readData(api.POST("/api/language/hover", { body }));

export const signIn = (token: string) => readData(api.POST("/api/session", { body: { token } }));

export const signOut = () => api.DELETE("/api/session");
