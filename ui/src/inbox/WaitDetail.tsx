// The selected wait: its context, its deadline, and the form that answers it.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { waitsOfRunQuery } from "../api/queries";
import type { InboxEntry } from "../api/types";
import { formatUtc } from "../lib/time";
import { ProblemNote } from "../parts/ProblemNote";
import { StatusMark } from "../parts/StatusMark";
import { Age } from "../parts/Time";
import { AnswerForm } from "./AnswerForm";
import { Deadline } from "./Deadline";
import { runOfWait, waitKey as keyOf, waitPlace, waitTitle } from "./waitView";

const refreshMs = 3000;

export function WaitDetail({ waitKey }: { waitKey: string }) {
  const run = runOfWait(waitKey);
  const { data, error, refetch } = useQuery({ ...waitsOfRunQuery(run), refetchInterval: refreshMs });
  const wait = data?.find((candidate) => keyOf(candidate) === waitKey);
  return (
    <section className="inbox-detail" aria-label="Selected wait">
      {error && <ProblemNote error={error} onRetry={() => void refetch()} />}
      {data && !wait && <EndedWait run={run} />}
      {wait && <OpenWait wait={wait} />}
    </section>
  );
}

function EndedWait({ run }: { run: string }) {
  return (
    <div className="notice">
      <h2>This task no longer waits</h2>
      <p>It was answered, its time ran out, or its run ended.</p>
      <Link to="/runs/$id" params={{ id: run }}>
        Open the run
      </Link>
    </div>
  );
}

function OpenWait({ wait }: { wait: InboxEntry }) {
  const selection = {
    step: wait.step,
    ...(wait.task ? { task: wait.task } : {}),
    ...(wait.iteration == null ? {} : { iteration: wait.iteration }),
  };
  return (
    <>
      <header className="row inbox-detail-head">
        <h2 className="grow">{waitTitle(wait)}</h2>
        <StatusMark status="waiting" />
      </header>
      {wait.description && <p className="inbox-description">{wait.description}</p>}
      <dl className="facts">
        <dt>Playbook</dt>
        <dd>
          <Link to="/playbooks/$path" params={{ path: wait.path }} search={{ version: wait.version }}>
            {wait.path}
          </Link>
          <span className="muted">@{wait.version}</span>
        </dd>
        <dt>Run</dt>
        <dd>
          <Link to="/runs/$id" params={{ id: wait.execution_id }} className="mono">
            {wait.execution_id}
          </Link>{" "}
          <Link to="/runs/$id" params={{ id: wait.execution_id }} search={{ tab: "events", seq: 1 }}>
            inputs
          </Link>
        </dd>
        <dt>Task</dt>
        <dd>
          <Link to="/runs/$id" params={{ id: wait.execution_id }} search={selection} className="mono">
            {waitPlace(wait)}
          </Link>
        </dd>
        <dt>Signal</dt>
        <dd className="mono">{wait.signal}</dd>
        <dt>Waits since</dt>
        <dd>
          {formatUtc(wait.since)} <span className="muted">(</span>
          <Age at={wait.since} />
          <span className="muted">)</span>
        </dd>
        <dt>Deadline</dt>
        <dd>
          {wait.deadline ? (
            <>
              {formatUtc(wait.deadline)} <span className="muted">(</span>
              <Deadline at={wait.deadline} />
              <span className="muted">)</span>
            </>
          ) : (
            <span className="muted">none</span>
          )}
        </dd>
      </dl>
      <AnswerForm wait={wait} />
    </>
  );
}
