// Short names for the generated types, and the types of what the schema only calls an object.
import type { ExactJson } from "../lib/exactJson";
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
export type EventParams = NonNullable<paths["/api/executions/{id}/events"]["get"]["parameters"]["query"]>;
export type FacetValue = Schemas["FacetCount"];
export type HistogramBucket = Schemas["HistogramBucket"];
export type Facets = Schemas["ExecutionFacets"];
export type BulkAction = Schemas["BulkAction"];
export type BulkPreview = Schemas["BulkPreview"];
export type BulkResult = Schemas["BulkResult"];
export type InboxFilterParams = Omit<
  NonNullable<paths["/api/inbox"]["get"]["parameters"]["query"]>,
  "limit" | "cursor"
>;
export type InboxEntry = Complete<Schemas["InboxEntry"]>;
export type InboxChoice = Schemas["InboxChoice"];
export type FailureGroup = Complete<Schemas["FailureGroup"]>;
export type StepStatus = Schemas["GraphStatus"];
export type GraphTask = Omit<Schemas["GraphTask"], "rules"> & { rules: Complete<Schemas["GraphPolicyRule"]>[] };
export type LoopCounts = Complete<Schemas["GraphLoop"]>;
export type IterationStatus = Schemas["IterationStatus"];
export type LoopCells = Complete<Schemas["LoopCells"]>;
export type LoopDurations = Complete<Schemas["LoopDurations"]>;
export type CellParams = NonNullable<paths["/api/executions/{id}/loops/{step}/cells"]["get"]["parameters"]["query"]>;
export type DurationParams = NonNullable<
  paths["/api/executions/{id}/loops/{step}/durations"]["get"]["parameters"]["query"]
>;
export type TimelineAttempt = Complete<Schemas["TimelineAttempt"]>;
export type TimelineTask = Omit<Complete<Schemas["TimelineTask"]>, "attempts"> & { attempts: TimelineAttempt[] };
export type TimelineIteration = Complete<Schemas["TimelineIteration"]>;
export type TimelineLoop = Omit<Complete<Schemas["TimelineLoop"]>, "iterations"> & { iterations: TimelineIteration[] };
export type TimelineStep = Omit<Complete<Schemas["TimelineStep"]>, "tasks" | "loop"> & {
  tasks: TimelineTask[];
  loop: TimelineLoop | null;
};
export type Timeline = Omit<Complete<Schemas["ExecutionTimeline"]>, "steps"> & { steps: TimelineStep[] };
export type GraphArc = Complete<Schemas["GraphArc"]>;
export type GraphStep = Omit<Complete<Schemas["GraphStep"]>, "error" | "loop" | "tasks"> & {
  error: TaskError | null;
  loop: LoopCounts | null;
  tasks: GraphTask[];
};
export type RunGraph = Omit<Schemas["ExecutionGraph"], "steps" | "arcs"> & { steps: GraphStep[]; arcs: GraphArc[] };

export type StateCheck = Schemas["StateCheckResponse"];
export type StateWriter = Complete<Schemas["StateWriter"]>;
export type StateEntry = Omit<Schemas["StateEntry"], "value" | "writer"> & { value: Json; writer: StateWriter | null };
export type StatePipeline = Omit<Complete<Schemas["StatePipeline"]>, "iter"> & { iter: StateEntry[] };
export type StateChange = Omit<Schemas["StateChange"], "before" | "after"> & {
  before: StateEntry | null;
  after: StateEntry | null;
};
export type StateComparison = Omit<Schemas["StateComparison"], "ctx" | "workload"> & {
  ctx: StateChange[];
  workload: StateChange[];
};
export type RunState = Omit<Schemas["StateResponse"], "ctx" | "workload" | "pipelines" | "tokens" | "comparison"> & {
  ctx: StateEntry[];
  workload: StateEntry[];
  pipelines: StatePipeline[];
  tokens: Complete<Schemas["StateToken"]>[];
  comparison: StateComparison | null;
};
export type PlaybookGraph = Omit<Complete<Schemas["PlaybookGraph"]>, "steps" | "arcs"> & {
  steps: GraphStep[];
  arcs: GraphArc[];
};
/** What a check of a text found. */
export type Validation = Omit<Schemas["ValidateResponse"], "graph"> & { graph?: PlaybookGraph | null };
export type TextPosition = Schemas["LanguagePositionRequest"];
export type CompletionEntry = Schemas["CompletionEntry"];
export type HoverText = Schemas["HoverEntry"];

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
export type LogEvent = Omit<Schemas["LogEvent"], "payload"> & { payload: JsonObject };

/** A line that a task wrote. */
export type LogLine = Omit<Schemas["LogLine"], "level" | "position"> & {
  /** Where it is in the log. */
  position: number;
  level: "debug" | "info" | "warn" | "error";
};

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
  type?: string;
  title?: string;
  description?: string;
  default?: ExactJson;
  enum?: ExactJson[];
  properties?: Record<string, InputSchema>;
  required?: string[];
  items?: InputSchema;
  /** A default that is computed when the run starts. */
  "x-template"?: string;
}

export interface InputForm {
  path: string;
  version: number;
  description?: string | null;
  schema: InputSchema;
}

export type PlaybookVersion = Schemas["PlaybookVersionEntry"];
export type DiffLine = Schemas["DiffTextLine"];
export type DiffText = Schemas["DiffText"];
export type DiffChange = Complete<Schemas["PlaybookDiffChange"]>;
export type PlaybookDiff = Omit<Complete<Schemas["PlaybookDiff"]>, "changes"> & { changes: DiffChange[] };
export type PlaybookVersionGraph = Omit<Schemas["PlaybookVersionGraph"], "steps" | "arcs"> & {
  steps: GraphStep[];
  arcs: GraphArc[];
};
export type RecentRuns = Complete<Schemas["RecentRuns"]>;
export type RunOutcome = Schemas["RunOutcome"];
export type RerunPreview = Omit<Complete<Schemas["RerunPreview"]>, "difference"> & { difference: PlaybookDiff | null };
export type ListedCredential = Schemas["ListedCredential"];
export type CredentialType = Schemas["CredentialType"];
export type WaitingReason = Schemas["WaitingReason"];
export type QueueOverview = Schemas["QueueOverview"];
export type WorkerOverview = Schemas["WorkerOverview"];
export type SystemStatus = Complete<Schemas["SystemStatus"]>;
export type LimitEntry = Complete<Schemas["LimitEntry"]>;
export type AccessTokenEntry = Schemas["AccessTokenEntry"];
export type AuditLogEntry = Schemas["AuditLogEntry"];
export type AuditFilter = Pick<
  NonNullable<paths["/api/audit"]["get"]["parameters"]["query"]>,
  "actor" | "action" | "resource" | "outcome"
>;
