// The state of the inbox in the URL: filters and the selected wait.
import type { InboxEntry, InboxFilterParams } from "../api/types";
import { omitUndefined, readText, readWord } from "../lib/search";

export interface InboxView {
  path?: string;
  signal?: string;
  run?: string;
  order?: "oldest";
  /** The selected wait: the ID of its run, a colon, and the number of the event that began it. */
  wait?: string;
}

export function readInboxView(search: Record<string, unknown>): InboxView {
  return omitUndefined({
    path: readText(search["path"]),
    signal: readText(search["signal"]),
    run: readText(search["run"]),
    order: readWord(search["order"], ["oldest"]),
    wait: readText(search["wait"]),
  });
}

/** The parameters of the API for the filters of a view. */
export function toInboxParams({ path, signal, run, order }: InboxView): InboxFilterParams {
  return omitUndefined({ path, signal, execution_id: run, order });
}

export function hasFilter({ path, signal, run }: InboxView): boolean {
  return path !== undefined || signal !== undefined || run !== undefined;
}

/** The name of a wait in the URL. */
export function waitKey({ execution_id: run, seq }: Pick<InboxEntry, "execution_id" | "seq">): string {
  return `${run}:${seq}`;
}

/** The ID of the run of a wait. */
export function runOfWait(key: string): string {
  return key.split(":")[0] ?? "";
}

/** The place of a wait in its run: `step#iteration/task`. */
export function waitPlace({ step, iteration, task }: Pick<InboxEntry, "step" | "iteration" | "task">): string {
  return `${step}${iteration == null ? "" : `#${iteration}`}${task ? `/${task}` : ""}`;
}

/** What a person reads first: the title of the approval, or the signal. */
export function waitTitle({ title, kind, signal }: Pick<InboxEntry, "title" | "kind" | "signal">): string {
  return title || (kind === "approval" ? `Approval ${signal}` : `Signal ${signal}`);
}
