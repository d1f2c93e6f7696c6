// The playbook of the run as a graph with the state of each step and arc.
import { ProblemNote } from "../../parts/ProblemNote";
import { useRun } from "../context";
import { useRunGraph } from "../time/cursor";
import GraphView from "./GraphView";

export default function GraphTab() {
  const { view, select } = useRun();
  const { data, error, refetch } = useRunGraph();
  if (error && !data) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  const note = data.is_complete
    ? null
    : `The log is very long. The graph shows the events up to number ${data.seq.toLocaleString("en")}.`;
  return <GraphView graph={data} selected={view.step} onSelect={(step) => select({ step })} note={note} />;
}
