// The place of a result in a run as one word, for the URL: `step/run/task/iteration/page/attempt`.
import type { ReferenceEntry } from "../../api/types";

export function formatResultKey(entry: ReferenceEntry): string {
  const { step, run, task, iteration, page, attempt } = entry;
  return [step, run, task ?? "", iteration ?? "", page ?? "", attempt].join("/");
}

/** The step of a key. */
export function readResultStep(key: string): string {
  return key.split("/")[0] ?? "";
}

/** The `noetl://` address of a stored result; null if the result is in the log. */
export function readReferenceAddress(entry: ReferenceEntry): string | null {
  const reference: unknown = entry.reference;
  if (typeof reference !== "object" || reference === null || !("ref" in reference)) return null;
  return typeof reference.ref === "string" ? reference.ref : null;
}
