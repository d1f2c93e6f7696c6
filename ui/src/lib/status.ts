// The words and the marks of statuses. The statuses themselves come from the API.

export type Mark = "done" | "running" | "waiting" | "retrying" | "failed" | "skipped" | "cancelled" | "paused" | "none";

export interface StatusLook {
  mark: Mark;
  word: string;
}

const looks: Record<string, StatusLook> = {
  RUNNING: { mark: "running", word: "running" },
  PAUSED: { mark: "paused", word: "paused" },
  COMPLETED: { mark: "done", word: "completed" },
  FAILED: { mark: "failed", word: "failed" },
  CANCELLED: { mark: "cancelled", word: "cancelled" },
  not_reached: { mark: "none", word: "not reached" },
  running: { mark: "running", word: "running" },
  in_progress: { mark: "running", word: "in progress" },
  waiting: { mark: "waiting", word: "waiting" },
  retrying: { mark: "retrying", word: "retrying" },
  success: { mark: "done", word: "succeeded" },
  ok: { mark: "done", word: "succeeded" },
  error: { mark: "failed", word: "failed" },
  skipped: { mark: "skipped", word: "skipped" },
  cancelled: { mark: "cancelled", word: "cancelled" },
  paused: { mark: "paused", word: "paused" },
  alive: { mark: "done", word: "alive" },
  gone: { mark: "failed", word: "gone" },
  active: { mark: "done", word: "active" },
  expired: { mark: "skipped", word: "expired" },
  revoked: { mark: "cancelled", word: "revoked" },
  done: { mark: "done", word: "done" },
  denied: { mark: "cancelled", word: "denied" },
  failed: { mark: "failed", word: "failed" },
};

/** How a status looks; a status that is new to the client shows its own word. */
export function lookOf(status: string): StatusLook {
  return looks[status] ?? { mark: "none", word: status.toLowerCase().replaceAll("_", " ") };
}

/** Whether a run can still change by itself. */
export function isLive(status: string): boolean {
  return status === "RUNNING" || status === "PAUSED";
}

interface RunPlace {
  error?: string | null;
  current_step?: string | null;
  waits_for?: string | null;
}

/** Where a run stands: its error, or its step and what the step waits for. */
export function describePlace({ error, current_step: step, waits_for: signal }: RunPlace): string {
  if (error) return error;
  return [step, signal && `waiting for signal ${signal}`].filter(Boolean).join(", ");
}
