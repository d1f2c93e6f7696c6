// What a rerun would do: the steps it reuses and runs, the inputs it changes, and what differs between the versions.
import type { RerunPreview } from "../../api/types";
import { DiffView } from "../../parts/PlaybookDiff";
import "./rerun.css";

const namesMax = 8;

export function RerunPreviewPanel({ preview }: { preview: RerunPreview }) {
  const { reused_steps: reused, first_steps: first, later_steps: later, reused_iterations: iterations } = preview;
  return (
    <section className="rerun-preview" aria-label="What the rerun does">
      <h3>
        Reuses {countSteps(reused.length)}, runs {countSteps(first.length)}
        {later.length > 0 && ` first, then up to ${later.length} more`}
      </h3>
      <dl className="rerun-facts">
        {reused.length > 0 && <Fact name="reused" names={reused.map(({ step }) => step)} note="by reference" />}
        {iterations && (
          <Fact
            name="iterations"
            names={[iterations.step]}
            note={`${iterations.reused.toLocaleString("en")} of ${iterations.total.toLocaleString("en")} are reused`}
          />
        )}
        <Fact name="runs first" names={first} />
        {later.length > 0 && <Fact name="may follow" names={later} note="conditions of arcs decide" />}
        {preview.changed_inputs.length > 0 && <Fact name="changed inputs" names={preview.changed_inputs} />}
      </dl>
      {preview.difference && (
        <details className="rerun-diff" open={preview.difference.changes.length <= 5}>
          <summary>
            Version {preview.from_version} to {preview.version}: {countChanges(preview.difference.changes.length)}
          </summary>
          <DiffView diff={preview.difference} />
        </details>
      )}
    </section>
  );
}

function Fact({ name, names, note }: { name: string; names: string[]; note?: string }) {
  const hidden = names.length - namesMax;
  return (
    <>
      <dt className="muted">{name}</dt>
      <dd>
        <span className="mono">{names.slice(0, namesMax).join(", ")}</span>
        {hidden > 0 && ` and ${hidden} more`}
        {note && <span className="muted"> {note}</span>}
      </dd>
    </>
  );
}

const countSteps = (count: number) => (count === 0 ? "no steps" : count === 1 ? "1 step" : `${count} steps`);
const countChanges = (count: number) => (count === 0 ? "no changes" : count === 1 ? "1 change" : `${count} changes`);
