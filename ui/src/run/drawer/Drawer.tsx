// The drawer on the right: what is selected in the run, in detail.
import { IconButton } from "../../parts/Button";
import { CopyIcon } from "../../parts/copy";
import { ProblemNote } from "../../parts/ProblemNote";
import { useRun } from "../context";
import { formatAddress, readSelection, type Selection } from "../runView";
import { collectTaskRuns } from "../taskRuns";
import { useCursor, useRunGraph } from "../time/cursor";
import { useSelectionEvents } from "./selectionEvents";
import { StepDetail } from "./StepDetail";
import { TaskDetail } from "./TaskDetail";
import "./drawer.css";

export function Drawer() {
  const { detail, view, select } = useRun();
  const selection = readSelection(view);
  if (!selection) return null;
  const address = formatAddress(selection);
  return (
    <aside className="drawer" aria-label={`Details of ${address}`}>
      <div className="drawer-head">
        <nav className="mono truncate grow" aria-label="Selection">
          <DrawerCrumbs selection={selection} onSelect={select} />
        </nav>
        <CopyIcon text={`${detail.execution_id}/${address}`} what="the address" />
        <IconButton isSmall icon="close" label="Close" keys="Esc" onClick={() => select(null)} />
      </div>
      <DrawerBody key={`${selection.step} ${selection.iteration} ${selection.task}`} selection={selection} />
    </aside>
  );
}

function DrawerCrumbs({ selection, onSelect }: { selection: Selection; onSelect: (selection: Selection) => void }) {
  const { step, task, iteration } = selection;
  const isLeaf = task === undefined && iteration === undefined;
  return (
    <>
      {isLeaf ? (
        step
      ) : (
        <button type="button" className="link" onClick={() => onSelect({ step })}>
          {step}
        </button>
      )}
      {iteration !== undefined &&
        (task === undefined ? (
          `#${iteration}`
        ) : (
          <button type="button" className="link" onClick={() => onSelect({ step, iteration })}>
            #{iteration}
          </button>
        ))}
      {task !== undefined && `/${task}`}
    </>
  );
}

function DrawerBody({ selection }: { selection: Selection }) {
  const { detail } = useRun();
  const graph = useRunGraph();
  const { events, isLoading, error, retry } = useSelectionEvents(detail.execution_id, selection, useCursor());
  const step = graph.data?.steps.find((candidate) => candidate.step === selection.step);
  const problem = graph.error ?? error;
  if (problem) return <ProblemNote error={problem} onRetry={graph.error ? () => void graph.refetch() : retry} />;
  if (graph.isPending || isLoading) return null;
  if (!step) return <p className="notice muted">The playbook of this run has no step {selection.step}.</p>;

  const taskRuns = collectTaskRuns(events);
  return (
    <div className="drawer-body">
      {selection.task === undefined ? (
        <StepDetail step={step} selection={selection} taskRuns={taskRuns} events={events} />
      ) : (
        <TaskDetail taskRuns={taskRuns} plan={step.tasks.find((task) => task.label === selection.task)} />
      )}
    </div>
  );
}
