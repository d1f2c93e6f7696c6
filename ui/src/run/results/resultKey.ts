// The place of a result in a run as one word, for the URL: `step/run/task/iteration/page/attempt`.
import type { Json, JsonObject, ReferenceEntry } from "../../api/types";

export function formatResultKey(entry: ReferenceEntry): string {
  const { step, run, task, iteration, page, attempt } = entry;
  return [step, run, task ?? "", iteration ?? "", page ?? "", attempt].join("/");
}

/** The step of a key. */
export function readResultStep(key: string): string {
  return key.split("/")[0] ?? "";
}

/** What a reference to a stored result says. */
export interface StoredReference {
  /** The `noetl://` address. */
  address: string;
  store: string | null;
  scope: string | null;
  sha256: string | null;
  /** The start of the value; undefined if there is none. */
  sample: Json | undefined;
}

/** The reference of a stored result; null if the result is in the log. */
export function readReference(entry: ReferenceEntry): StoredReference | null {
  const reference = entry.reference as JsonObject | null | undefined;
  const address = readString(reference, "ref");
  if (!reference || address === null) return null;
  return {
    address,
    store: readString(reference, "store"),
    scope: readString(reference, "scope"),
    sha256: readString(readObject(reference, "meta"), "sha256"),
    sample: readObject(reference, "preview")?.["sample"],
  };
}

function readObject(object: JsonObject, key: string): JsonObject | null {
  const value = object[key];
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
}

function readString(object: JsonObject | null | undefined, key: string): string | null {
  const value = object?.[key];
  return typeof value === "string" ? value : null;
}
