// What a person can do to runs and playbooks.
import { api, readData } from "./client";
import type { JsonObject } from "./types";

type Payload = Record<string, never>;

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

export const sendSignal = (id: string, name: string, payload: JsonObject) =>
  readData(
    api.POST("/api/executions/{id}/signal/{name}", {
      params: { path: { id, name } },
      body: payload as Payload,
    }),
  );

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
  payload?: JsonObject;
}

export const rerunRun = (id: string, { payload, ...options }: RerunOptions) =>
  readData(
    api.POST("/api/executions/{id}/rerun", {
      params: { path: { id } },
      body: { ...options, ...(payload ? { payload: payload as Payload } : {}) },
    }),
  );

export const startRun = (path: string, version: number, payload: JsonObject) =>
  readData(api.POST("/api/execute", { body: { path, version, payload: payload as Payload } }));

export const validatePlaybook = (content: string) =>
  readData(api.POST("/api/catalog/playbooks/validate", { body: { content } }));

export const registerPlaybook = (content: string) => readData(api.POST("/api/catalog/register", { body: { content } }));

export const signIn = (token: string) => readData(api.POST("/api/session", { body: { token } }));

export const signOut = () => api.DELETE("/api/session");
