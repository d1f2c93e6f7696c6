// The graph of the text that is being written. A click on a step leads to its line.
import { useMemo } from "react";
import type { PlaybookGraph } from "../api/types";
import GraphView from "../run/graph/GraphView";
import { nameArc } from "../run/graph/layout";

/** Larger graphs are not laid out while a person types, because that takes seconds. */
const drawnStepsMax = 300;

interface EditorGraphProps {
  graph: PlaybookGraph;
  /** The step at the cursor. */
  selected: string | undefined;
  onPick: (line: number) => void;
}

export default function EditorGraph({ graph, selected, onPick }: EditorGraphProps) {
  // A name may occur twice in a text with errors; the first step has it.
  // A loop has no progress here, so its node needs no room for it.
  const shown = useMemo(
    () => ({
      steps: keepFirst(graph.steps, (step) => step.step).map((step) => ({ ...step, loop: null })),
      arcs: keepFirst(graph.arcs, nameArc),
    }),
    [graph],
  );
  const pick = (name: string) => onPick(shown.steps.find((step) => step.step === name)?.line ?? 1);
  if (graph.steps.length === 0) return <p className="notice muted">The text has no steps yet.</p>;
  if (graph.steps.length > drawnStepsMax) {
    return (
      <p className="notice muted">
        The playbook has {graph.steps.length.toLocaleString("en")} steps. The graph is drawn while you write up to{" "}
        {drawnStepsMax} steps.
      </p>
    );
  }
  return <GraphView graph={shown} selected={selected} direction="TB" onSelect={pick} isStatic />;
}

/** Leaves out later elements with the name of an earlier one. */
function keepFirst<Element>(list: Element[], name: (element: Element) => string): Element[] {
  const names = new Set<string>();
  return list.filter((element) => !names.has(name(element)) && names.add(name(element)));
}
