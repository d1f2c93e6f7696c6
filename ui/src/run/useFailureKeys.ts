// The keys `[` and `]`: go to the previous or next failure of the run.
import { useQuery } from "@tanstack/react-query";
import type { FailureGroup } from "../api/types";
import { failuresQuery } from "../api/queries";
import { useKeys } from "../shell/keyboard";
import { useRun } from "./context";
import { formatAddress, readSelection, type Selection } from "./runView";

export function useFailureKeys() {
  const { detail, view, select } = useRun();
  const { data } = useQuery(failuresQuery(detail.execution_id));
  const failures = listFailures(data ?? []);
  const current = readSelection(view);
  const move = (step: number) => {
    const index = current ? failures.findIndex((failure) => isSame(failure, current)) : -1;
    const next = index < 0 ? failures.at(step > 0 ? 0 : -1) : failures[index + step];
    if (next) select(next);
  };
  useKeys("Failures", [
    { keys: "[", label: "Previous failure", run: () => move(-1) },
    { keys: "]", label: "Next failure", run: () => move(1) },
  ]);
}

/** Each failure as a selection; those of a loop one by one. */
export function listFailures(groups: FailureGroup[]): Selection[] {
  return groups.flatMap((group) => {
    const place: Selection = { step: group.step, ...(group.task === null ? {} : { task: group.task }) };
    return group.iterations.length > 0 ? group.iterations.map((iteration) => ({ ...place, iteration })) : [place];
  });
}

function isSame(failure: Selection, { step, task, iteration }: Selection): boolean {
  const wanted: Selection = {
    step,
    ...(task === undefined ? {} : { task }),
    ...(iteration === undefined ? {} : { iteration }),
  };
  return formatAddress(failure) === formatAddress(wanted);
}
