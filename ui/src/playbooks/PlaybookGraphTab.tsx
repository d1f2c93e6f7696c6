// The steps and arcs of a version of a playbook. A step leads to its line in the source.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";
import { playbookGraphQuery } from "../api/queries";
import { ProblemNote } from "../parts/ProblemNote";

const GraphView = lazy(() => import("../run/graph/GraphView"));
const route = getRouteApi("/playbooks/$path");

export function PlaybookGraphTab({ path, version }: { path: string; version: number }) {
  const { step } = route.useSearch();
  const navigate = route.useNavigate();
  const { data, error, refetch } = useQuery(playbookGraphQuery(path, version));
  // A loop that has not started has no counts.
  const graph = useMemo(
    () => data && { arcs: data.arcs, steps: data.steps.map((entry) => ({ ...entry, loop: null })) },
    [data],
  );
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!graph) return null;
  const selected = graph.steps.find((entry) => entry.step === step);
  return (
    <>
      {selected && (
        <div className="tab-bar">
          <span className="mono">{selected.step}</span>
          <span className="muted truncate">{selected.description}</span>
          <span className="grow" />
          <Link to="/playbooks/$path" params={{ path }} search={{ tab: "source", version, line: selected.line }}>
            line {selected.line}
          </Link>
        </div>
      )}
      <Suspense fallback={<div className="graph" />}>
        <GraphView
          graph={graph}
          isStatic
          selected={step}
          onSelect={(name) => void navigate({ search: (search) => ({ ...search, step: name }), replace: true })}
        />
      </Suspense>
    </>
  );
}
