// Types of API routes that are not in the generated schema yet. Delete this file when `npm run schema` generates them.
import type { components, paths } from "./schema";

type ExecutionPage = components["schemas"]["ExecutionPage"];
type LogsResponse = components["schemas"]["LogsResponse"];
type Problem = components["schemas"]["Problem"];

export type Role = "viewer" | "operator" | "author" | "admin";

export interface Session {
  auth: "open" | "required";
  role: Role | null;
  name: string | null;
  version: string;
  expires_at: string | null;
}

export interface RunFilterParams {
  status?: string;
  path?: string;
  q?: string;
  error_code?: string;
  min_duration?: string;
  max_duration?: string;
  since?: string;
  until?: string;
  parent?: string;
}

export interface FacetValue {
  value: string;
  count: number;
}

export interface HistogramBucket {
  at: string;
  counts: Record<string, number>;
}

export interface Facets {
  total: number;
  is_complete: boolean;
  statuses: FacetValue[];
  paths: FacetValue[];
  error_codes: FacetValue[];
  histogram: { from: string; to: string; bucket_seconds: number; buckets: HistogramBucket[] };
}

export type StepStatus =
  "not_reached" | "running" | "waiting" | "retrying" | "success" | "error" | "skipped" | "cancelled";

export interface TaskError {
  kind?: string;
  code?: string;
  message?: string;
  file?: string;
  line?: number;
  column?: number;
  step?: string;
  task?: string;
  iteration?: number;
  [key: string]: unknown;
}

export interface GraphTask {
  label: string;
  kind: string;
  line: number | null;
  column: number | null;
  status: StepStatus;
  attempts: number;
}

export interface LoopCounts {
  total: number | null;
  succeeded: number;
  failed: number;
  in_flight: number;
  retries: number;
}

export interface GraphStep {
  step: string;
  line: number | null;
  column: number | null;
  description: string | null;
  kind: "task" | "loop" | "pipeline" | "route";
  runs: number;
  status: StepStatus;
  is_reused: boolean;
  started_at: string | null;
  ended_at: string | null;
  tasks: GraphTask[];
  loop: LoopCounts | null;
  error: TaskError | null;
}

export interface GraphArc {
  from: string;
  to: string;
  index: number;
  when: string | null;
  line: number | null;
  column: number | null;
  taken: number;
  refused: number;
  last: { seq: number; value: unknown } | null;
}

export interface RunGraph {
  execution_id: string;
  seq: number;
  status: string;
  entry: string;
  is_complete: boolean;
  steps: GraphStep[];
  arcs: GraphArc[];
}

export interface FailureGroup {
  code: string;
  message: string;
  step: string;
  task: string | null;
  line: number | null;
  column: number | null;
  count: number;
  iterations: number[];
  first_seq: number;
  attempts: number;
}

interface Answer<Body> {
  200: { headers: Record<string, unknown>; content: { "application/json": Body } };
  default: { headers: Record<string, unknown>; content: { "application/problem+json": Problem } };
}

interface Read<Path, Query, Body> {
  parameters: { path: Path; query?: Query; header?: never; cookie?: never };
  requestBody?: never;
  responses: Answer<Body>;
}

interface AdditionPaths {
  "/api/session": {
    get: {
      parameters: { query?: never; header?: never; path?: never; cookie?: never };
      requestBody?: never;
      responses: Answer<Session>;
    };
    post: {
      parameters: { query?: never; header?: never; path?: never; cookie?: never };
      requestBody: { content: { "application/json": { token: string } } };
      responses: Answer<Session>;
    };
    delete: {
      parameters: { query?: never; header?: never; path?: never; cookie?: never };
      requestBody?: never;
      responses: { 204: { headers: Record<string, unknown>; content?: never } };
    };
  };
  "/api/executions": {
    get: {
      parameters: {
        query?: RunFilterParams & { limit?: number; cursor?: string };
        header?: never;
        path?: never;
        cookie?: never;
      };
      requestBody?: never;
      responses: Answer<ExecutionPage>;
    };
  };
  "/api/executions/facets": {
    get: {
      parameters: { query?: RunFilterParams; header?: never; path?: never; cookie?: never };
      requestBody?: never;
      responses: Answer<Facets>;
    };
  };
  "/api/executions/{id}/graph": { get: Read<{ id: string }, { at_seq?: number }, RunGraph> };
  "/api/executions/{id}/failures": { get: Read<{ id: string }, never, { groups: FailureGroup[] }> };
  "/api/executions/{id}/logs": { get: Read<{ id: string }, LogParams, LogsResponse> };
}

export interface LogParams {
  after?: number;
  limit?: number;
  step?: string;
  task?: string;
  q?: string;
  level?: "error";
  iteration?: number;
  attempt?: number;
}

export type ApiPaths = Omit<paths, keyof AdditionPaths> & AdditionPaths;
