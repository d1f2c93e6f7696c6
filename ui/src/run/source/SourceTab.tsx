// The playbook that the run uses. The line that failed, or the selected step, is marked.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { TaskError } from "../../api/types";
import { playbookQuery } from "../../api/queries";
import { CopyButton } from "../../parts/copy";
import { LazyCode } from "../../parts/LazyCode";
import { ProblemNote } from "../../parts/ProblemNote";
import { useRun } from "../context";
import { useRunGraph } from "../time/cursor";

export function SourceTab() {
  const { detail, view } = useRun();
  const { path, version } = detail.execution;
  const { data, error, refetch } = useQuery(playbookQuery(path, version));
  const line = useMarkedLine();
  const isFailed = detail.execution.status === "FAILED";
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data?.content) return null;
  return (
    <>
      <div className="tab-bar">
        <Link to="/playbooks/$path" params={{ path }} search={{ version }} className="mono">
          {path}@{version}
        </Link>
        {line !== undefined && (
          <span className={view.line === undefined && detail.error ? "tone-failed" : "muted"}>line {line}</span>
        )}
        <span className="grow" />
        <Link
          to="/playbooks/$path/edit"
          params={{ path }}
          search={{
            version,
            ...(line === undefined ? {} : { line }),
            ...(isFailed ? { run: detail.execution.execution_id } : {}),
          }}
          className="button button-small"
        >
          Edit source
        </Link>
        <CopyButton text={data.content} what="the playbook">
          Copy
        </CopyButton>
      </div>
      <LazyCode text={data.content} label={`Playbook ${path}`} line={line} />
    </>
  );
}

/** The line of the URL, else of the selected step, else the line that failed. */
function useMarkedLine(): number | undefined {
  const { detail, view } = useRun();
  const graph = useRunGraph();
  if (view.line !== undefined) return view.line;
  const step = graph.data?.steps.find((candidate) => candidate.step === view.step);
  const task = step?.tasks.find((candidate) => candidate.label === view.task);
  const error = detail.error as TaskError | null | undefined;
  return task?.line ?? step?.line ?? error?.line;
}
