// A selected step: when it ran, its loop, its failures and its tasks.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { GraphStep } from "../../api/types";
import { failuresQuery } from "../../api/queries";
import type { LogEvent } from "../../api/types";
import { formatDuration, formatUtc, millisecondsBetween } from "../../lib/time";
import { Button } from "../../parts/Button";
import { JsonTree } from "../../parts/JsonTree";
import { StatusMark } from "../../parts/StatusMark";
import { useRun } from "../context";
import { LoopBar } from "../LoopBar";
import type { Selection } from "../runView";
import type { TaskRun } from "../taskRuns";
import { useCursor } from "../time/cursor";
import { Section } from "./Section";
import { WaitingSection } from "./WaitingSection";

interface StepDetailProps {
  step: GraphStep;
  selection: Selection;
  taskRuns: TaskRun[];
  events: LogEvent[];
}

export function StepDetail({ step, selection, taskRuns, events }: StepDetailProps) {
  const { setView } = useRun();
  const isIteration = selection.iteration !== undefined;
  const arcs = events.findLast((event) => event.event_type === "next.evaluated");
  return (
    <>
      <dl className="facts">
        {!isIteration && (
          <>
            <dt>Status</dt>
            <dd>
              <StatusMark status={step.status} />
              {step.runs > 1 && <span className="muted"> in {step.runs} runs</span>}
            </dd>
          </>
        )}
        {!isIteration && step.started_at && (
          <>
            <dt>Started</dt>
            <dd>{formatUtc(step.started_at)}</dd>
          </>
        )}
        {!isIteration && step.started_at && step.ended_at && (
          <>
            <dt>Took</dt>
            <dd>{formatDuration(millisecondsBetween(step.started_at, step.ended_at))}</dd>
          </>
        )}
        {step.line !== null && (
          <>
            <dt>Playbook</dt>
            <dd>
              <button
                type="button"
                className="link"
                onClick={() => setView((view) => ({ ...view, tab: "source", line: step.line ?? 1 }))}
              >
                line {step.line}
              </button>
            </dd>
          </>
        )}
      </dl>
      {step.description && <p>{step.description}</p>}
      {!isIteration && <WaitingSection step={step} />}
      {step.loop && !isIteration && (
        <Section title="Iterations">
          <LoopBar loop={step.loop} />
          <IterationField step={step.step} total={step.loop.total} />
        </Section>
      )}
      {!isIteration && <StepFailures step={step.step} />}
      <Section title="Tasks">
        {taskRuns.length > 0 ? (
          <TaskRunList taskRuns={taskRuns} />
        ) : (
          <PlannedTasks step={step} isIteration={isIteration} />
        )}
      </Section>
      {arcs && !isIteration && (
        <Section title="Arcs">
          <JsonTree value={arcs.payload} />
        </Section>
      )}
    </>
  );
}

function PlannedTasks({ step, isIteration }: { step: GraphStep; isIteration: boolean }) {
  if (isIteration) return <p className="muted">The log has no tasks of this iteration yet.</p>;
  if (step.tasks.length === 0) return <p className="muted">This step has no tasks; it only routes.</p>;
  return (
    <ul className="task-list">
      {step.tasks.map((task) => (
        <li key={task.label} className="task-row">
          <StatusMark status={task.status} isShort />
          <span className="mono">{task.label}</span>
          <span className="muted">{task.kind}</span>
        </li>
      ))}
    </ul>
  );
}

function TaskRunList({ taskRuns }: { taskRuns: TaskRun[] }) {
  const { select } = useRun();
  return (
    <ul className="task-list">
      {taskRuns.map((run) => (
        <li key={run.id}>
          <button
            type="button"
            className="task-row task-button"
            onClick={() =>
              select({
                step: run.step,
                task: run.task,
                ...(run.iteration === undefined ? {} : { iteration: run.iteration }),
              })
            }
          >
            <StatusMark status={run.status} isShort />
            <span className="mono truncate grow">
              {run.iteration !== undefined && <span className="muted">#{run.iteration}/</span>}
              {run.task}
            </span>
            {run.attempts.length > 1 && <span className="tone-retrying">{run.attempts.length} attempts</span>}
            <span className="muted">{run.durationMs === undefined ? "" : formatDuration(run.durationMs)}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

function StepFailures({ step }: { step: string }) {
  const { detail, select } = useRun();
  const { data } = useQuery(failuresQuery(detail.execution_id));
  const at = useCursor();
  const groups = data?.filter((group) => group.step === step && (at === undefined || group.first_seq <= at)) ?? [];
  if (groups.length === 0) return null;
  return (
    <Section title="Failures">
      {groups.map((group) => {
        const place: Selection = { step, ...(group.task === null ? {} : { task: group.task }) };
        return (
          <div key={`${group.task} ${group.code} ${group.message}`} className="failure">
            <p>
              <span className="problem-code">{group.code}</span>{" "}
              {group.count > 1 && <span className="muted">{group.count} times</span>}
            </p>
            <p className="break">{group.message}</p>
            <p className="failure-links">
              {group.iterations.slice(0, 20).map((iteration) => (
                <button
                  key={iteration}
                  type="button"
                  className="link mono"
                  onClick={() => select({ ...place, iteration })}
                >
                  #{iteration}
                </button>
              ))}
              {group.iterations.length === 0 && group.task !== null && (
                <button type="button" className="link mono" onClick={() => select(place)}>
                  {group.task}
                </button>
              )}
            </p>
          </div>
        );
      })}
    </Section>
  );
}

function IterationField({ step, total }: { step: string; total: number | null }) {
  const { select } = useRun();
  const [text, setText] = useState("");
  const isValid = /^\d+$/.test(text) && (total === null || Number(text) < total);
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        if (isValid) select({ step, iteration: Number(text) });
      }}
    >
      <input
        className="input iteration-input"
        inputMode="numeric"
        aria-label="Index of an iteration"
        placeholder={total === null ? "index" : `0 to ${total - 1}`}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <Button type="submit" disabled={!isValid}>
        Open iteration
      </Button>
    </form>
  );
}
