// The header of a run: where it is from, its status, why it failed, and what can be done.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { TaskError } from "../api/types";
import { facetsQuery, waitsOfRunQuery } from "../api/queries";
import { Deadline } from "../inbox/Deadline";
import { waitKey, waitPlace } from "../inbox/waitView";
import { showRunCommand } from "../lib/cli";
import { addLabel } from "../lib/labels";
import { CopyButton, CopyIcon } from "../parts/copy";
import { MarkIcon, StatusMark } from "../parts/StatusMark";
import { Age, RunTook } from "../parts/Time";
import { useRun } from "./context";
import { RunActions } from "./RunActions";
import { formatAddress, withSelection, type Selection } from "./runView";

const waitRefreshMs = 5000;

export function RunHeader() {
  const { detail, view } = useRun();
  const run = detail.execution;
  const place = view.from === "selection" || view.tab !== "logs" ? { step: view.step, task: view.task } : {};
  const command = showRunCommand(run.execution_id, {
    tab: view.tab,
    type: view.type,
    hasFailed: run.status === "FAILED",
    ...place,
  });
  const isCancelling = run.cancelling && run.status === "RUNNING";
  return (
    <header className="run-header">
      <div className="run-title">
        <h1 className="truncate">
          <Link to="/runs" className="muted run-crumb">
            Runs
          </Link>
          <span className="muted"> › </span>
          <Link
            to="/playbooks/$path"
            params={{ path: run.path }}
            search={{ version: run.version }}
            className="run-crumb"
          >
            {run.path}
            <span className="muted">@{run.version}</span>
          </Link>
        </h1>
        <span className="run-state">
          <StatusMark status={isCancelling ? "cancelling" : run.status} />
        </span>
        <span className="grow" />
        <RunActions />
      </div>
      <p className="run-facts muted">
        <span className="row run-id-fact">
          <span className="mono">{run.execution_id}</span>
          <CopyIcon text={run.execution_id} what="the run ID" />
        </span>
        <span>
          started <Age at={run.started_at} />
        </span>
        <span>
          took <RunTook run={run} />
        </span>
        <span>{run.seq.toLocaleString("en")} events</span>
        {run.generation > 1 && <span>retry {run.generation - 1}</span>}
        {run.parent_execution_id && (
          <span>
            started by{" "}
            <Link to="/runs/$id" params={{ id: run.parent_execution_id }}>
              parent run
            </Link>
          </span>
        )}
        <ChildLink id={run.execution_id} />
        {Object.entries(run.labels ?? {}).map(([key, value]) => (
          <Link key={key} to="/runs" search={{ label: addLabel("", key, value) }} className="tag run-label">
            {key}={value}
          </Link>
        ))}
        <CopyButton text={command} what="the command">
          Copy CLI
        </CopyButton>
      </p>
      {run.waits_for && <WaitSentence id={run.execution_id} />}
      {detail.error && <ErrorSentence error={detail.error as TaskError} />}
    </header>
  );
}

function ChildLink({ id }: { id: string }) {
  const { data } = useQuery(facetsQuery({ parent: id }));
  if (!data || data.total === 0) return null;
  return (
    <Link to="/runs" search={{ parent: id }}>
      {data.total.toLocaleString("en")} child {data.total === 1 ? "run" : "runs"}
    </Link>
  );
}

const shownWaitsMax = 3;

/** What the run waits for, with the link to answer it and the command that continues the run. */
function WaitSentence({ id }: { id: string }) {
  const { data } = useQuery({ ...waitsOfRunQuery(id), refetchInterval: waitRefreshMs });
  const { select } = useRun();
  const waits = data ?? [];
  const rest = waits.length - shownWaitsMax;
  return (
    <>
      {waits.slice(0, shownWaitsMax).map((wait) => (
        <p key={wait.seq} className="run-wait">
          <span>
            <MarkIcon mark="waiting" />{" "}
            <button
              type="button"
              className="link mono"
              onClick={() =>
                select({
                  step: wait.step,
                  ...(wait.task ? { task: wait.task } : {}),
                  ...(wait.iteration == null ? {} : { iteration: wait.iteration }),
                })
              }
            >
              {waitPlace(wait)}
            </button>{" "}
            waits for {wait.kind === "approval" ? "the approval" : "the signal"}{" "}
            <span className="mono">{wait.signal}</span>
            {wait.deadline && (
              <span className="muted">
                , <Deadline at={wait.deadline} />
              </span>
            )}
          </span>
          <Link to="/inbox" search={{ run: id, wait: waitKey(wait) }}>
            Answer in the inbox
          </Link>
          {wait.choices[0] && (
            <CopyButton text={wait.choices[0].command} what="the command">
              Copy CLI: {wait.choices[0].label}
            </CopyButton>
          )}
        </p>
      ))}
      {rest > 0 && (
        <p className="run-wait">
          <Link to="/inbox" search={{ run: id }}>
            {rest.toLocaleString("en")} more {rest === 1 ? "wait" : "waits"}
          </Link>
        </p>
      )}
    </>
  );
}

function ErrorSentence({ error }: { error: TaskError }) {
  const { view, setView, select } = useRun();
  const { code, message, step, line } = error;
  const selection: Selection | null = step
    ? {
        step,
        ...(error.task ? { task: error.task } : {}),
        ...(error.iteration === undefined ? {} : { iteration: error.iteration }),
      }
    : null;
  const openSource = () =>
    setView(() => ({ ...withSelection(view, selection), tab: "source", ...(line ? { line } : {}) }));
  return (
    <p className="run-error">
      <MarkIcon mark="failed" />
      {selection && (
        <button type="button" className="link mono" onClick={() => select(selection)}>
          {formatAddress(selection)}
        </button>
      )}
      <span className="grow run-error-text">
        {message} {code && <span className="mono muted">{code}</span>}
      </span>
      {line !== undefined && (
        <button type="button" className="link" onClick={openSource}>
          line {line}
        </button>
      )}
    </p>
  );
}
