// Task runs and their attempts, collected from events for the drawer. What happened is in the events; nothing is
// concluded here.
import type { TaskError } from "../api/types";
import type { Json, JsonObject, LogEvent } from "../api/types";

export interface PolicyMatch {
  /** Index of the rule that matched; null if none did. */
  rule: number | null;
  action: JsonObject;
}

export interface Attempt {
  number: number;
  status: string;
  startedAt?: string;
  durationMs?: number;
  outcome?: JsonObject;
  /** Whether the result is stored outside the log. */
  isStored?: boolean;
  policy?: PolicyMatch;
  /** Event that ended the attempt. */
  seq?: number;
}

export interface TaskRun {
  id: string;
  step: string;
  task: string;
  iteration?: number;
  status: string;
  startedAt?: string;
  durationMs?: number;
  request?: Json;
  inputs?: Json;
  awaits?: Json;
  attempts: Attempt[];
}

export function collectTaskRuns(events: LogEvent[]): TaskRun[] {
  const runs = new Map<string, TaskRun>();
  for (const event of events) {
    if (!event.task_run_id || !event.task_label || !event.step) continue;
    let run = runs.get(event.task_run_id);
    if (!run) {
      run = { id: event.task_run_id, step: event.step, task: event.task_label, status: "running", attempts: [] };
      if (event.iteration !== undefined) run.iteration = event.iteration;
      runs.set(run.id, run);
    }
    applyEvent(run, event);
  }
  return [...runs.values()];
}

/** The attempt that a view shows if none is chosen: the last one. */
export function findAttempt(run: TaskRun, number: number | undefined): Attempt | undefined {
  return run.attempts.find((attempt) => attempt.number === number) ?? run.attempts.at(-1);
}

/** The error of an outcome. */
export function readError(outcome: JsonObject | undefined): TaskError | null {
  const error = outcome?.["error"];
  return error && typeof error === "object" && !Array.isArray(error) ? error : null;
}

/** The traceback of a Python task. */
export function readTraceback(outcome: JsonObject | undefined): string | null {
  const py = outcome?.["py"];
  if (!py || typeof py !== "object" || Array.isArray(py)) return null;
  const traceback = py["traceback"];
  return typeof traceback === "string" ? traceback : null;
}

function applyEvent(run: TaskRun, event: LogEvent) {
  const attempt = () => findOrAddAttempt(run, event.attempt ?? 1);
  const { payload } = event;
  switch (event.event_type) {
    case "task.started":
      run.startedAt = event.timestamp;
      if (payload["request"] !== undefined) run.request = payload["request"];
      if (payload["inputs"] !== undefined) run.inputs = payload["inputs"];
      if (payload["awaits"] !== undefined) {
        run.awaits = payload["awaits"];
        run.status = "waiting";
        attempt().status = "waiting";
      }
      attempt().startedAt ??= event.timestamp;
      break;
    case "task.attempt.started":
      attempt().startedAt = event.timestamp;
      break;
    case "task.attempt.done":
    case "task.attempt.failed":
      endAttempt(attempt(), event);
      break;
    case "task.done":
    case "task.failed":
      endAttempt(attempt(), event);
      run.status = event.status ?? "";
      if (event.duration_ms !== undefined) run.durationMs = event.duration_ms;
      break;
    case "policy.task.evaluated":
      attempt().policy = {
        rule: typeof payload["matched_rule_index"] === "number" ? payload["matched_rule_index"] : null,
        action: isObject(payload["action"]) ? payload["action"] : {},
      };
      break;
  }
}

function findOrAddAttempt(run: TaskRun, number: number): Attempt {
  const known = run.attempts.find((attempt) => attempt.number === number);
  if (known) return known;
  const attempt = { number, status: "running" };
  run.attempts.push(attempt);
  return attempt;
}

function endAttempt(attempt: Attempt, event: LogEvent) {
  const isEndOfRun = event.event_type === "task.done" || event.event_type === "task.failed";
  attempt.status = event.status ?? "";
  attempt.seq ??= event.seq;
  // The end of a task run has the duration of all attempts.
  if (event.duration_ms !== undefined && !(isEndOfRun && attempt.number > 1)) attempt.durationMs ??= event.duration_ms;
  if (isObject(event.payload["outcome"])) attempt.outcome = event.payload["outcome"];
  if (event.payload["result_ref"] !== undefined) attempt.isStored = true;
  const action = event.payload["do"];
  if (isEndOfRun && typeof action === "string" && !attempt.policy) {
    const rule = event.payload["matched_rule_index"];
    attempt.policy = { rule: typeof rule === "number" ? rule : null, action: { do: action } };
  }
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
