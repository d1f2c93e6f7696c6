// The difference of two states: keys and steps that were added, removed or changed between two events.
import type { StateChange, StateComparison } from "../../api/types";
import { StatusMark } from "../../parts/StatusMark";
import { EntryValue, WriterLink } from "./StateValues";

const kindWords: Record<StateChange["kind"], string> = { added: "+ added", removed: "− removed", changed: "~ changed" };

export function StateDifference({ shown, comparison }: { shown: number; comparison: StateComparison }) {
  const first = Math.min(shown, comparison.seq);
  const last = Math.max(shown, comparison.seq);
  const { ctx, workload, steps } = comparison;
  return (
    <>
      <p>
        From event {first.toLocaleString("en")} to event {last.toLocaleString("en")}:{" "}
        {ctx.length + workload.length + steps.length === 0 && "nothing changed in variables, inputs and steps."}
      </p>
      <ChangeSection title="Variables (ctx)" changes={ctx} />
      <ChangeSection title="Inputs (workload)" changes={workload} />
      {steps.length > 0 && (
        <section>
          <h2>Steps</h2>
          <ul className="state-steps">
            {steps.map((step) => (
              <li key={step.step} className="row">
                <span className="mono">{step.step}</span>
                <StatusMark status={step.before.status} />
                <span aria-hidden="true">→</span>
                <span className="visually-hidden">to</span>
                <StatusMark status={step.after.status} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function ChangeSection({ title, changes }: { title: string; changes: StateChange[] }) {
  if (changes.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      {changes.map((change) => (
        <div key={change.key} className="state-change" data-kind={change.kind} data-key={change.key}>
          <p className="row">
            <span className={`state-kind state-${change.kind}`}>{kindWords[change.kind]}</span>
            <span className="mono grow">{change.key}</span>
            {change.after && <WriterLink writer={change.after.writer} />}
          </p>
          <div className="state-sides">
            {change.before && (
              <div>
                <p className="muted">Before</p>
                <EntryValue entry={change.before} />
              </div>
            )}
            {change.after && (
              <div>
                <p className="muted">After</p>
                <EntryValue entry={change.after} />
              </div>
            )}
          </div>
        </div>
      ))}
    </section>
  );
}
