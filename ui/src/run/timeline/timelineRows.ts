// The rows of the timeline as it is drawn: steps, tasks, attempts, and the listed iterations of open loops.
import type { Timeline, TimelineAttempt, TimelineLoop, TimelineStep, TimelineTask } from "../../api/types";
import { lookOf } from "../../lib/status";
import { formatClock, formatMicroseconds, readMicroseconds } from "../../lib/time";
import { formatAddress, type Selection } from "../runView";
import type { Interval } from "./timeScale";

export interface Bar extends Interval {
  status: string;
  isQueued?: boolean;
}

export interface TimelineRow {
  key: string;
  depth: number;
  label: string;
  status: string;
  bars: Bar[];
  /** Times at which another attempt started. */
  retries: number[];
  selection: Selection;
  isCritical: boolean;
  /** What the row shows, in words. */
  words: string;
  loop?: TimelineLoop;
  isOpen?: boolean;
}

/** Names a step run in the URL. */
export function nameStepRun(step: TimelineStep): string {
  return `${step.step}:${step.run}`;
}

export function listRows(timeline: Timeline, openLoops: ReadonlySet<string>): TimelineRow[] {
  const clock = new RunClock(timeline);
  return timeline.steps.flatMap((step) => {
    const row = stepRow(clock, step);
    const iterations = row.loop && openLoops.has(row.key) ? iterationRows(clock, step, row.loop) : [];
    const tasks = step.tasks.flatMap((task) => taskRows(clock, step, task));
    return [{ ...row, ...(row.loop ? { isOpen: openLoops.has(row.key) } : {}) }, ...tasks, ...iterations];
  });
}

/** When something was queued or ran. */
export function listActivity(timeline: Timeline): Interval[] {
  const clock = new RunClock(timeline);
  return timeline.steps.flatMap((step) => {
    const queued = clock.bar(step.queued_at, step.started_at ?? step.ended_at, "waiting");
    const attempts = step.tasks.flatMap((task) => task.attempts.map((attempt) => clock.barOf(attempt)));
    return [queued, ...(attempts.length > 0 ? attempts : [clock.barOf(step)])].filter((bar) => bar !== null);
  });
}

/** The length of the run so far. */
export function runLength(timeline: Timeline): number {
  return new RunClock(timeline).end;
}

/** Times of the server as microseconds since the start of the run. */
class RunClock {
  readonly start: number;
  readonly end: number;

  constructor(timeline: Timeline) {
    this.start = readMicroseconds(timeline.started_at);
    this.end = Math.max(1, readMicroseconds(timeline.ended_at ?? timeline.now) - this.start);
  }

  read(text: string): number {
    return Math.max(0, Math.min(this.end, readMicroseconds(text) - this.start));
  }

  /** A bar from one time to another; what has not ended lasts until now. */
  bar(from: string | null, to: string | null, status: string): Bar | null {
    if (from === null) return null;
    const start = this.read(from);
    return { from: start, to: to === null ? this.end : Math.max(start, this.read(to)), status };
  }

  barOf(entity: { started_at: string | null; ended_at: string | null; status: string }): Bar | null {
    return this.bar(entity.started_at, entity.ended_at, entity.status);
  }
}

function stepRow(clock: RunClock, step: TimelineStep): TimelineRow {
  const queued = clock.bar(step.queued_at, step.started_at ?? step.ended_at, "waiting");
  const ran = clock.barOf(step);
  const label = step.run > 1 ? `${step.step} run ${step.run}` : step.step;
  const parts = [label, lookOf(step.status).word];
  if (step.is_reused) parts.push("reused from an earlier run");
  if (queued) parts.push(`queued ${formatMicroseconds(queued.to - queued.from)}`);
  parts.push(...describeBar(ran, step.started_at));
  if (step.loop) {
    const { total, succeeded, failed, measured, is_complete: isComplete } = step.loop;
    const show = (count: number) => count.toLocaleString("en");
    parts.push(`${show(total)} iterations, ${show(succeeded)} succeeded, ${show(failed)} failed`);
    if (!isComplete) parts.push(`the band shows a sample of ${show(measured)}`);
  }
  if (step.is_critical) parts.push("on the critical path");
  return {
    key: nameStepRun(step),
    depth: 0,
    label,
    status: step.status,
    bars: [...(queued ? [{ ...queued, isQueued: true }] : []), ...(ran ? [ran] : [])],
    retries: [],
    selection: { step: step.step },
    isCritical: step.is_critical,
    words: parts.join(", "),
    ...(step.loop ? { loop: step.loop } : {}),
  };
}

function taskRows(clock: RunClock, step: TimelineStep, task: TimelineTask): TimelineRow[] {
  const selection = { step: step.step, task: task.task };
  const label = task.visit > 1 ? `${task.task} visit ${task.visit}` : task.task;
  const bars = task.attempts.map((attempt) => clock.barOf(attempt)).filter((bar) => bar !== null);
  const whole = clock.barOf(task);
  const count = task.attempts.length;
  const parts = [label, lookOf(task.status).word, ...describeBar(whole, task.started_at)];
  if (count > 1) parts.push(`${count} attempts`);
  const key = `${nameStepRun(step)}/${task.task}.${task.visit}`;
  const row: TimelineRow = {
    key,
    depth: 1,
    label,
    status: task.status,
    bars: bars.length > 0 ? bars : whole ? [whole] : [],
    retries: bars.slice(1).map((bar) => bar.from),
    selection,
    isCritical: step.is_critical,
    words: parts.join(", "),
  };
  if (count < 2) return [row];
  return [row, ...task.attempts.map((attempt) => attemptRow(clock, row, attempt))];
}

function attemptRow(clock: RunClock, task: TimelineRow, attempt: TimelineAttempt): TimelineRow {
  const bar = clock.barOf(attempt);
  const label = `attempt ${attempt.attempt}`;
  return {
    ...task,
    key: `${task.key}@${attempt.attempt}`,
    depth: 2,
    label,
    status: attempt.status,
    bars: bar ? [bar] : [],
    retries: [],
    selection: { ...task.selection, attempt: attempt.attempt },
    words: [label, lookOf(attempt.status).word, ...describeBar(bar, attempt.started_at)].join(", "),
  };
}

function iterationRows(clock: RunClock, step: TimelineStep, loop: TimelineLoop): TimelineRow[] {
  return loop.iterations.map((iteration) => {
    const bar = clock.barOf(iteration);
    const selection = { step: step.step, iteration: iteration.iteration };
    const parts = [formatAddress(selection), lookOf(iteration.status).word, ...describeBar(bar, iteration.started_at)];
    if (iteration.attempts > 1) parts.push(`${iteration.attempts} attempts`);
    return {
      key: `${nameStepRun(step)}#${iteration.iteration}`,
      depth: 1,
      label: `#${iteration.iteration}`,
      status: iteration.status,
      bars: bar ? [bar] : [],
      retries: [],
      selection,
      isCritical: step.is_critical,
      words: parts.join(", "),
    };
  });
}

function describeBar(bar: Bar | null, startedAt: string | null): string[] {
  if (!bar || startedAt === null) return [];
  const micros = String(readMicroseconds(startedAt) % 1000).padStart(3, "0");
  return [`took ${formatMicroseconds(bar.to - bar.from)}`, `started ${formatClock(new Date(startedAt))}${micros}`];
}
