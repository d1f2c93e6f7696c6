// A selected task: its attempts, why it failed, what it was called with, what it printed, and where its result is.
import { useState } from "react";
import type { GraphTask, Json } from "../../api/types";
import { formatDuration } from "../../lib/time";
import { Button } from "../../parts/Button";
import { CopyIcon } from "../../parts/copy";
import { JsonTree } from "../../parts/JsonTree";
import { StatusMark } from "../../parts/StatusMark";
import { useRun } from "../context";
import type { Selection } from "../runView";
import { findAttempt, readError, type PolicyMatch, type TaskRun } from "../taskRuns";
import { ErrorDetail } from "./ErrorDetail";
import { LogTail } from "./LogTail";
import { ResultLink } from "./ResultLink";
import { Section } from "./Section";
import { WaitSection } from "./WaitSection";

interface TaskDetailProps {
  taskRuns: TaskRun[];
  /** The task in the playbook. */
  plan: GraphTask | undefined;
}

export function TaskDetail({ taskRuns, plan }: TaskDetailProps) {
  const { view, select, setView } = useRun();
  const [index, setIndex] = useState(taskRuns.length - 1);
  const run = taskRuns[Math.min(index, taskRuns.length - 1)];
  if (!run) return <p className="muted">The log has no run of this task yet.</p>;
  const attempt = findAttempt(run, view.attempt);
  const error = readError(attempt?.outcome);
  const result = attempt?.outcome?.["result"];
  const place: Selection = {
    step: run.step,
    task: run.task,
    ...(run.iteration === undefined ? {} : { iteration: run.iteration }),
  };

  return (
    <>
      {taskRuns.length > 1 && (
        <label className="field">
          <span className="label">Run of the task</span>
          <select className="input" value={index} onChange={(event) => setIndex(Number(event.target.value))}>
            {taskRuns.map((candidate, position) => (
              <option key={candidate.id} value={position}>
                {candidate.id.split(":run:")[1]} {candidate.status}
              </option>
            ))}
          </select>
        </label>
      )}
      <div className="attempts" role="group" aria-label="Attempts">
        {run.attempts.map((candidate) => (
          <Button
            key={candidate.number}
            isSmall
            aria-pressed={candidate === attempt}
            onClick={() => select({ ...place, attempt: candidate.number })}
          >
            <StatusMark status={candidate.status} isShort />
            attempt {candidate.number}
            {candidate.durationMs !== undefined && (
              <span className="muted">{formatDuration(candidate.durationMs)}</span>
            )}
          </Button>
        ))}
        {attempt?.seq !== undefined && (
          <button
            type="button"
            className="link"
            onClick={() => setView((current) => ({ ...current, tab: "events", seq: attempt.seq ?? 1 }))}
          >
            event {attempt.seq}
          </button>
        )}
      </div>
      {attempt?.outcome && error && <ErrorDetail error={error} outcome={attempt.outcome} />}
      {run.awaits !== undefined && <WaitSection awaits={run.awaits} isOver={run.status !== "waiting"} />}
      <InputSections run={run} />
      {result !== undefined && !attempt?.isStored && (
        <Section title="Result" extra={<CopyIcon text={JSON.stringify(result, null, 2)} what="the result" />}>
          <JsonTree value={result} />
        </Section>
      )}
      {attempt?.policy && <PolicySection policy={attempt.policy} plan={plan} />}
      <ResultLink selection={place} attempt={attempt} />
      <LogTail selection={place} attempt={attempt?.number} />
    </>
  );
}

function InputSections({ run }: { run: TaskRun }) {
  const parts: [string, Json | undefined][] = [
    ["Request", run.request],
    ["Input", run.inputs],
  ];
  const present = parts.filter((part): part is [string, Json] => part[1] !== undefined);
  if (present.length === 0) {
    return (
      <Section title="Input">
        <p className="muted">This task has no input.</p>
      </Section>
    );
  }
  return present.map(([title, value]) => (
    <Section
      key={title}
      title={title}
      extra={<CopyIcon text={JSON.stringify(value, null, 2)} what={title.toLowerCase()} />}
    >
      <JsonTree value={value} />
    </Section>
  ));
}

function PolicySection({ policy, plan }: { policy: PolicyMatch; plan: GraphTask | undefined }) {
  const { setView } = useRun();
  const rule = policy.rule === null ? undefined : plan?.rules[policy.rule];
  const { do: action, ...options } = policy.action;
  const extras = Object.entries(options).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  return (
    <Section
      title="Policy"
      extra={
        rule && (
          <button
            type="button"
            className="link"
            onClick={() => setView((view) => ({ ...view, tab: "source", line: rule.line }))}
          >
            line {rule.line}
          </button>
        )
      }
    >
      <p>
        {policy.rule === null ? "No rule matched" : `Rule ${policy.rule + 1} matched`} →{" "}
        <span className="mono">{String(action)}</span>
        {extras.length > 0 && <span className="muted mono"> {extras.join(", ")}</span>}
      </p>
      {rule && <p className="mono muted break">{rule.when === null ? "else" : `when: ${rule.when}`}</p>}
    </Section>
  );
}
