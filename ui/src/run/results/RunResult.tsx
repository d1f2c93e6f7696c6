// The result of the run: in the detail if it is small, read from its address if it is not.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { apiUrl } from "../../api/client";
import { resultBodyQuery } from "../../api/queries";
import type { Json } from "../../api/types";
import { isLive } from "../../lib/status";
import { Button } from "../../parts/Button";
import { ProblemNote } from "../../parts/ProblemNote";
import { useRun } from "../context";
import { useCursor, useRunGraph } from "../time/cursor";
import { JsonView } from "./JsonView";

/** The key of the result of the run in the URL. */
export const runResultKey = "run";

export function RunResult() {
  const { detail } = useRun();
  const at = useCursor();
  const graph = useRunGraph();
  const [isWanted, setIsWanted] = useState(false);
  const href = detail.result_href;
  const { data, error, refetch } = useQuery({
    ...resultBodyQuery(apiUrl(href ?? "/")),
    enabled: isWanted && !!href,
  });
  if (isLive(detail.status)) return <p className="muted">The run has no result until it ends.</p>;
  if (at !== undefined && graph.data && isLive(graph.data.status))
    return <p className="muted">The run had no result at event {at}.</p>;
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  const value = href ? data : (detail.result as Json);
  if (value === undefined) {
    return (
      <>
        <p className="muted">The result is large. It is read only when you ask for it.</p>
        <Button onClick={() => setIsWanted(true)}>Load the result</Button>
      </>
    );
  }
  return <JsonView value={value} name={`${detail.execution_id}.json`} />;
}
