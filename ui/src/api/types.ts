// Short names for the generated types, and the types of what the schema only calls an object.
import type { components, paths } from "./schema";

type Schemas = components["schemas"];

export type Run = Schemas["ExecutionSummary"];
export type RunDetail = Schemas["ExecutionDetail"];
export type OutlinePage = Schemas["OutlinePage"];
export type PlaybookEntry = Schemas["PlaybookEntry"];
export type ReferenceEntry = Schemas["ReferenceEntry"];

/** A type whose optional fields the server always sends, as null if they have no value. */
type Complete<T> = { [Key in keyof T]-?: Exclude<T[Key], undefined> };

export type Role = Schemas["Role"];
export type Session = Complete<Schemas["CallerSession"]>;
export type RunFilterParams = Omit<
  NonNullable<paths["/api/executions"]["get"]["parameters"]["query"]>,
  "limit" | "cursor"
>;
export type LogParams = NonNullable<paths["/api/executions/{id}/logs"]["get"]["parameters"]["query"]>;
export type FacetValue = Schemas["FacetCount"];
export type HistogramBucket = Schemas["HistogramBucket"];
export type Facets = Schemas["ExecutionFacets"];
export type InboxFilterParams = Omit<
  NonNullable<paths["/api/inbox"]["get"]["parameters"]["query"]>,
  "limit" | "cursor"
>;
export type InboxEntry = Complete<Schemas["InboxEntry"]>;
export type InboxChoice = Schemas["InboxChoice"];
export type FailureGroup = Complete<Schemas["FailureGroup"]>;
export type StepStatus = Schemas["GraphStatus"];
export type GraphTask = Schemas["GraphTask"];
export type LoopCounts = Complete<Schemas["GraphLoop"]>;
export type GraphArc = Complete<Schemas["GraphArc"]>;
export type GraphStep = Omit<Complete<Schemas["GraphStep"]>, "error" | "loop"> & {
  error: TaskError | null;
  loop: LoopCounts | null;
};
export type RunGraph = Omit<Schemas["ExecutionGraph"], "steps" | "arcs"> & { steps: GraphStep[]; arcs: GraphArc[] };

/** Why a task failed. */
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

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** An event of the log of a run. */
export interface LogEvent {
  seq: number;
  event_id: string;
  event_type: string;
  entity_type: string;
  entity_id?: string;
  timestamp: string;
  recorded_at: string;
  cause_seq?: number;
  source?: string;
  step?: string;
  step_run_id?: string;
  task_label?: string;
  task_run_id?: string;
  iteration?: number;
  attempt?: number;
  page?: number;
  status?: string;
  duration_ms?: number;
  worker_id?: string;
  payload: JsonObject;
}

/** A line that a task wrote. */
export interface LogLine {
  time: string;
  step: string;
  run: number;
  task: string;
  iteration?: number;
  attempt: number;
  stream: string;
  level: "debug" | "info" | "warn" | "error";
  text: string;
}

/** An error or a warning in a playbook. */
export interface Diagnostic {
  severity: string;
  code: string;
  message: string;
  file?: string;
  line?: number;
  column?: number;
  label?: string;
  help?: string[];
}

/** The schema of a form of inputs: the part of JSON Schema that the server writes. */
export interface InputSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: Json;
  enum?: Json[];
  properties?: Record<string, InputSchema>;
  required?: string[];
  items?: InputSchema;
}

export interface InputForm {
  path: string;
  version: number;
  description?: string | null;
  schema: InputSchema;
}
