// Failed runs by playbook: the newest one of each, and how many there are.
import type { Run } from "../api/types";

export interface FailingPlaybook {
  newest: Run;
  count: number;
}

/** Groups runs that are sorted from new to old. */
export function groupByPlaybook(runs: Run[]): FailingPlaybook[] {
  const groups = new Map<string, FailingPlaybook>();
  for (const run of runs) {
    const group = groups.get(run.path);
    if (group) group.count += 1;
    else groups.set(run.path, { newest: run, count: 1 });
  }
  return [...groups.values()];
}
