// The outcomes of the last runs of a playbook as a row of marks, the newest on the right.
import type { RunOutcome } from "../api/types";
import { lookOf } from "../lib/status";
import { MarkIcon } from "../parts/StatusMark";

export function OutcomeStrip({ outcomes }: { outcomes: RunOutcome[] }) {
  if (outcomes.length === 0) return <span className="muted">no runs</span>;
  return (
    <span
      className="outcome-strip"
      role="img"
      aria-label={describeOutcomes(outcomes)}
      title={describeOutcomes(outcomes)}
    >
      {outcomes.toReversed().map((run) => (
        <MarkIcon key={run.execution_id} mark={lookOf(run.status).mark} size={10} />
      ))}
    </span>
  );
}

/** `last 20 runs: 18 completed, 2 failed`. */
export function describeOutcomes(outcomes: RunOutcome[]): string {
  const counts = new Map<string, number>();
  for (const { status } of outcomes) {
    const { word } = lookOf(status);
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const parts = [...counts].map(([word, count]) => `${count} ${word}`);
  return `last ${outcomes.length === 1 ? "run" : `${outcomes.length} runs`}: ${parts.join(", ")}`;
}
