// The state of the run at the cursor: variables, inputs, pipelines, steps and branches, each value with the event that
// wrote it; or the difference from another event.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { stateQuery } from "../../api/queries";
import type { RunState } from "../../api/types";
import { formatUtc } from "../../lib/time";
import { CopyButton } from "../../parts/copy";
import { ProblemNote } from "../../parts/ProblemNote";
import { StatusMark } from "../../parts/StatusMark";
import { useRun } from "../context";
import { formatAddress } from "../runView";
import { useCursor } from "../time/cursor";
import { CompareForm } from "./CompareForm";
import { StateDifference } from "./StateDifference";
import { StateValues } from "./StateValues";
import "./state.css";

const refreshMs = 3000;

export function StateTab() {
  const { detail, view, log } = useRun();
  const at = useCursor();
  const { data, error, refetch } = useQuery({
    ...stateQuery(detail.execution_id, at, view.compare),
    placeholderData: keepPreviousData,
    // Each read is a replay, so new events are collected for some seconds.
    refetchInterval: ({ state }) => (at === undefined && state.data && state.data.seq < log.length ? refreshMs : false),
  });
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  return (
    <>
      <div className="tab-bar">
        <StatusMark status={data.status} />
        <span className="muted">
          after event {data.seq.toLocaleString("en")}, {formatUtc(data.recorded_at)}
        </span>
        <span className="grow" />
        <CompareForm shown={data.seq} />
        <CopyButton text={JSON.stringify(data, null, 2)} what="the state">
          Copy JSON
        </CopyButton>
      </div>
      <div className="state" tabIndex={0} role="region" aria-label={`State after event ${data.seq}`}>
        {!data.is_complete && <p className="muted">The state is very large. Some of its entries are not listed.</p>}
        {data.writers_since > 0 && (
          <p className="muted">
            This state was computed from a snapshot. The writers of values are known after event{" "}
            {data.writers_since.toLocaleString("en")}.
          </p>
        )}
        {data.comparison ? (
          <StateDifference shown={data.seq} comparison={data.comparison} />
        ) : (
          <StateSections state={data} />
        )}
      </div>
    </>
  );
}

function StateSections({ state }: { state: RunState }) {
  return (
    <>
      <section>
        <h2>Variables (ctx)</h2>
        <StateValues entries={state.ctx} label="ctx" emptyText="No step has written a variable at this event." />
      </section>
      <section>
        <h2>Inputs (workload)</h2>
        <StateValues entries={state.workload} label="workload" emptyText="The run has no inputs." />
      </section>
      <PipelineSection pipelines={state.pipelines} />
      <StepSection steps={state.steps} />
      {state.tokens.length > 0 && (
        <section>
          <h2>Branches that wait</h2>
          <ul>
            {state.tokens.map((token, index) => (
              <li key={index}>
                <span className="mono">{token.step}</span>{" "}
                <span className="muted">
                  {token.from ? `from ${token.from}` : "from the start"}
                  {token.is_parked && ", waits for admission"}
                </span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function PipelineSection({ pipelines }: { pipelines: RunState["pipelines"] }) {
  if (pipelines.length === 0) return null;
  return (
    <section>
      <h2>Active pipelines</h2>
      {pipelines.map((pipeline) => {
        const { step, run, iteration, task } = pipeline;
        const place = {
          step,
          ...(task === null ? {} : { task }),
          ...(iteration === null ? {} : { iteration }),
        };
        return (
          <div key={`${step} ${run} ${iteration}`} className="state-pipeline">
            <p className="row">
              <StatusMark status={pipeline.status} isShort />
              <PlaceLink place={place} />
              {run > 1 && <span className="muted">run {run}</span>}
            </p>
            {pipeline.iter.length > 0 && (
              <StateValues entries={pipeline.iter} label={`iter of ${formatAddress(place)}`} emptyText="" />
            )}
          </div>
        );
      })}
    </section>
  );
}

function PlaceLink({ place }: { place: { step: string; task?: string; iteration?: number } }) {
  const { select } = useRun();
  return (
    <button type="button" className="link mono" onClick={() => select(place)}>
      {formatAddress(place)}
    </button>
  );
}

function StepSection({ steps }: { steps: RunState["steps"] }) {
  return (
    <section>
      <h2>Steps</h2>
      <ul className="state-steps">
        {steps.map((step) => (
          <li key={step.step} className="row" data-step={step.step} data-status={step.status}>
            <StatusMark status={step.status} isShort />
            <PlaceLink place={{ step: step.step }} />
            {step.runs > 1 && <span className="muted">{step.runs} runs</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
