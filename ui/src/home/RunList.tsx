// A short list of runs: status, playbook, step or error, age.
import { Link } from "@tanstack/react-router";
import type { Run } from "../api/types";
import { describePlace } from "../lib/status";
import { StatusMark } from "../parts/StatusMark";
import { Age, RunTook } from "../parts/Time";

interface RunListProps {
  runs: Run[];
  /** How many runs a row stands for, by run ID. */
  counts?: ReadonlyMap<string, number>;
}

export function RunList({ runs, counts }: RunListProps) {
  return (
    <ul className="run-list">
      {runs.map((run) => (
        <li key={run.execution_id}>
          <Link to="/runs/$id" params={{ id: run.execution_id }} className="run-list-row">
            <StatusMark status={run.status} isShort />
            <span className="truncate run-list-name">
              {run.path}
              <span className="muted">@{run.version}</span>
            </span>
            <span className={`truncate grow ${run.status === "FAILED" ? "tone-failed" : "muted"}`}>
              {describePlace(run)}
            </span>
            {(counts?.get(run.execution_id) ?? 1) > 1 && (
              <span className="tag">{counts?.get(run.execution_id)} times</span>
            )}
            <span className="muted run-list-took">
              <RunTook run={run} />
            </span>
            <span className="muted run-list-age">
              <Age at={run.started_at} />
            </span>
          </Link>
        </li>
      ))}
    </ul>
  );
}
