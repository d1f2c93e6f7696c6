// An action on many runs: the previewed runs are sent in requests of bounded size, and their results are counted.
import { applyBulkAction } from "../api/actions";
import type { BulkAction, BulkResult } from "../api/types";

export interface BulkSummary {
  done: number;
  /** Refused runs by error code, with one reason as an example. */
  refused: { code: string; detail: string; count: number }[];
}

/** Runs of one request, as the API limits them. */
export const runsPerRequest = 100;
/** How often runs that a request did not start are sent again. */
const rounds = 20;

export function summarizeResults(results: BulkResult[]): BulkSummary {
  const refused = new Map<string, { code: string; detail: string; count: number }>();
  for (const { outcome, code, detail } of results) {
    if (outcome !== "refused") continue;
    const entry = refused.get(code ?? "") ?? { code: code ?? "", detail: detail ?? "", count: 0 };
    refused.set(entry.code, { ...entry, count: entry.count + 1 });
  }
  return {
    done: results.filter(({ outcome }) => outcome === "done").length,
    refused: [...refused.values()].sort((first, second) => second.count - first.count),
  };
}

interface BulkOptions {
  action: BulkAction;
  key: string;
  ids: string[];
  onProgress: (results: BulkResult[]) => void;
  signal: AbortSignal;
}

/** Applies an action to all runs; stops before the next request when the signal is aborted. */
export async function applyToAll({ action, key, ids, onProgress, signal }: BulkOptions): Promise<BulkResult[]> {
  const results: BulkResult[] = [];
  let left = ids;
  for (let round = 0; left.length > 0 && round < rounds + ids.length / runsPerRequest && !signal.aborted; round += 1) {
    const response = await applyBulkAction(action, key, left.slice(0, runsPerRequest));
    results.push(...response.results.filter(({ outcome }) => outcome !== "pending"));
    const pending = response.results.filter(({ outcome }) => outcome === "pending").map((run) => run.execution_id);
    left = [...pending, ...left.slice(runsPerRequest)];
    onProgress([...results]);
  }
  return results;
}
