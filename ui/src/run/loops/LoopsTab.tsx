// The iterations of a loop: a heatmap with one cell for each, their durations, and their failures by error.
import { useQuery } from "@tanstack/react-query";
import { cellsQuery, graphQuery } from "../../api/queries";
import type { CellParams, GraphStep, LoopCells } from "../../api/types";
import { ProblemNote } from "../../parts/ProblemNote";
import { useRun } from "../context";
import { parseRanges } from "./cells";
import { CellLegend } from "./CellLegend";
import { DurationHistogram } from "./DurationHistogram";
import { FailureTable } from "./FailureTable";
import { Heatmap } from "./Heatmap";
import { LoopToolbar } from "./LoopToolbar";
import { MarkedIterations } from "./MarkedIterations";
import "./loops.css";

export default function LoopsTab() {
  const { detail, view } = useRun();
  const { data, error, refetch } = useQuery(graphQuery(detail.execution_id));
  if (error && !data) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  const loops = data.steps.filter((step) => step.kind === "loop");
  const chosen = chooseLoop(loops, view.loop ?? view.step);
  if (!chosen) return <p className="notice muted">The playbook of this run has no loop.</p>;
  return <OpenLoop key={chosen.step} step={chosen} loops={loops} />;
}

/** The loop that is named, or else the first that failed, is active, or ran. */
function chooseLoop(loops: GraphStep[], name: string | undefined): GraphStep | undefined {
  const find = (...statuses: string[]) => loops.find((step) => statuses.includes(step.status));
  return (
    loops.find((step) => step.step === name) ??
    find("error") ??
    find("running", "waiting", "retrying") ??
    find("success", "cancelled") ??
    loops[0]
  );
}

function OpenLoop({ step, loops }: { step: GraphStep; loops: GraphStep[] }) {
  const { detail, view } = useRun();
  const range = parseRanges(view.range)[0];
  const place: CellParams = {
    ...(view.run === undefined ? {} : { run: view.run }),
    ...(range ? { from: range.first, limit: range.last - range.first + 1 } : {}),
  };
  const query = cellsQuery(detail.execution_id, step.step, { ...place, by: view.by ?? "status" });
  const { data, error, refetch, isPending } = useQuery({
    ...query,
    enabled: step.runs > 0 && !step.is_reused,
    placeholderData: (before) => (before?.step === step.step ? before : undefined),
  });
  const isMissing = step.runs === 0 || step.is_reused;
  return (
    <>
      <LoopToolbar step={step} loops={loops} cells={data} range={range} />
      <div className="loops">
        {isMissing && <MissingLoop step={step} />}
        {error && !data && <ProblemNote error={error} onRetry={() => void refetch()} />}
        {isPending && !isMissing && <p className="muted">Reading the iterations…</p>}
        {data && !isMissing && <LoopBody cells={data} place={place} />}
      </div>
    </>
  );
}

function MissingLoop({ step }: { step: GraphStep }) {
  return (
    <p className="notice muted">
      {step.is_reused
        ? `The results of ${step.step} were reused from an earlier run, so it has no iterations here.`
        : `The run has not reached ${step.step}.`}
    </p>
  );
}

function LoopBody({ cells, place }: { cells: LoopCells; place: CellParams }) {
  const { detail, view } = useRun();
  const by = view.by ?? "status";
  if (cells.total === 0) return <p className="notice muted">The loop has no items.</p>;
  return (
    <>
      <div className="loops-split">
        <section className="loops-map" aria-label="Heatmap of iterations">
          <CellLegend cells={cells} by={by} />
          <Heatmap cells={cells} by={by} />
          <MarkedIterations cells={cells} />
          {!cells.is_complete && (
            <p className="muted">
              Not every status is exact: the loop stopped early or is very long. Choose a smaller range.
            </p>
          )}
        </section>
        <DurationHistogram id={detail.execution_id} step={cells.step} place={place} />
      </div>
      <FailureTable step={cells.step} />
    </>
  );
}
