// The node of a step: status, name, its tasks as dots with the current one named, and the progress of its loop.
import { Handle, Position, type Node, type NodeProps } from "@xyflow/react";
import type { GraphStep, GraphTask } from "../../api/types";
import { lookOf, type Mark } from "../../lib/status";
import { formatDuration, millisecondsBetween } from "../../lib/time";
import { MarkIcon } from "../../parts/StatusMark";
import { describeLoop, LoopBar } from "../LoopBar";

export interface StepNodeData extends Record<string, unknown> {
  step: GraphStep;
  isSelected: boolean;
  direction: "LR" | "TB";
  /** Whether there is no run: the node shows what the step does instead of a status. */
  isStatic?: boolean;
}
export type StepFlowNode = Node<StepNodeData, "step">;

export function StepNode({ data: { step, isSelected, direction, isStatic = false } }: NodeProps<StepFlowNode>) {
  const { mark, word } = lookOf(step.status);
  const [target, source] = direction === "LR" ? [Position.Left, Position.Right] : [Position.Top, Position.Bottom];
  return (
    <div className="step-node" data-mark={isStatic ? "static" : mark} data-selected={isSelected || undefined}>
      <Handle type="target" position={target} isConnectable={false} />
      <p className="step-name truncate" title={step.description ?? step.step}>
        {step.step}
      </p>
      {isStatic ? (
        <p className="step-state muted">{describeKind(step)}</p>
      ) : (
        <StepState step={step} mark={mark} word={word} />
      )}
      {step.tasks.length > 0 && <TaskDots tasks={step.tasks} />}
      {step.loop && <LoopBar loop={step.loop} />}
      <Handle type="source" position={source} isConnectable={false} />
    </div>
  );
}

function StepState({ step, mark, word }: { step: GraphStep; mark: Mark; word: string }) {
  return (
    <p className="step-state">
      <span className={`status tone-${mark}`}>
        <MarkIcon mark={mark} />
        {word}
        {step.is_reused && ", reused"}
      </span>
      <span className="muted">
        {step.runs > 1 && `${step.runs} runs `}
        {step.started_at && step.ended_at && formatDuration(millisecondsBetween(step.started_at, step.ended_at))}
      </span>
    </p>
  );
}

const kinds = { route: "chooses arcs", task: "one task", pipeline: "tasks", loop: "loop" };

/** What a step does, in a few words. */
function describeKind({ kind, tasks }: GraphStep): string {
  return kind === "pipeline" ? `${tasks.length} tasks` : kinds[kind];
}

const dotsMax = 12;

function TaskDots({ tasks }: { tasks: GraphTask[] }) {
  const current = findCurrent(tasks);
  return (
    <p className="step-tasks">
      {tasks.length > 1 &&
        tasks
          .slice(0, dotsMax)
          .map((task) => (
            <span
              key={task.label}
              className={`task-dot fill-${lookOf(task.status).mark}`}
              data-status={task.status}
              title={`${task.label} ${lookOf(task.status).word}`}
            />
          ))}
      <span className="mono truncate">{current.label}</span>
      <span className="muted truncate">{current.kind}</span>
      {current.attempts > 1 && <span className="tone-retrying">↻ {current.attempts}</span>}
    </p>
  );
}

/** The task that a pipeline is at: the one that failed or runs, else the last one that was reached. */
function findCurrent(tasks: GraphTask[]): GraphTask {
  const notable = tasks.find((task) => ["running", "waiting", "error"].includes(task.status));
  const reached = tasks.findLast((task) => task.status !== "not_reached");
  return notable ?? reached ?? (tasks[0] as GraphTask);
}

/** What a screen reader says about a node. */
export function describeStep(step: GraphStep, isStatic = false): string {
  if (isStatic) return `Step ${step.step}, ${describeKind(step)}`;
  const loop = step.loop ? `, ${describeLoop(step.loop)}` : "";
  return `Step ${step.step}, ${lookOf(step.status).word}${loop}`;
}
