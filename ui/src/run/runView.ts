// The state of the page of a run, as search parameters: the tab, the selection, and the filters of the tabs.
import { omitUndefined, readNumber, readText, readWord } from "../lib/search";

export const runTabs = ["graph", "timeline", "loops", "logs", "events", "results", "state", "source"] as const;
export type RunTab = (typeof runTabs)[number];

export const runDialogs = ["retry", "rerun", "cancel"] as const;
export type RunDialog = (typeof runDialogs)[number];

export interface RunView {
  tab?: RunTab;
  /** The selection, which all tabs share. */
  step?: string;
  task?: string;
  iteration?: number;
  attempt?: number;
  /** Line of the playbook, in the source tab. */
  line?: number;
  /** The event that all tabs show; without it, the newest. */
  at?: number;
  /** The event whose state is compared, in the state tab. */
  compare?: number;
  /** An event, in the events tab. */
  seq?: number;
  /** Types of events in the events tab, separated by commas. */
  type?: string;
  /** Position of a line of output, in the logs tab. */
  log?: number;
  /** Text that log lines contain, whose lines are shown, and whether only errors are. */
  q?: string;
  from?: "selection";
  level?: "error";
  /** The result that is open: `step/run/task/iteration/page/attempt`. */
  result?: string;
  /** The loop in the loops tab: step, run of the step, iterations in view, color of cells, marked iterations. */
  loop?: string;
  run?: number;
  range?: string;
  by?: "duration" | "attempts";
  marked?: string;
  /** In the timeline: open loops as `step:run`, the time in view, and whether the critical path stands out. */
  open?: string;
  time?: string;
  path?: "critical";
  dialog?: RunDialog;
}

export function readRunView(search: Record<string, unknown>): RunView {
  return omitUndefined({
    tab: readWord(search["tab"], runTabs),
    step: readText(search["step"]),
    task: readText(search["task"]),
    iteration: readNumber(search["iteration"]),
    attempt: readNumber(search["attempt"]),
    line: readNumber(search["line"]),
    at: readNumber(search["at"]),
    compare: readNumber(search["compare"]),
    seq: readNumber(search["seq"]),
    type: readText(search["type"]),
    log: readNumber(search["log"]),
    q: readText(search["q"]),
    from: readWord(search["from"], ["selection"]),
    level: readWord(search["level"], ["error"]),
    result: readText(search["result"]),
    loop: readText(search["loop"]),
    run: readNumber(search["run"]),
    range: readText(search["range"]),
    by: readWord(search["by"], ["duration", "attempts"]),
    marked: readText(search["marked"]),
    open: readText(search["open"]),
    time: readText(search["time"]),
    path: readWord(search["path"], ["critical"]),
    dialog: readWord(search["dialog"], runDialogs),
  });
}

/** The view without some of its parameters. */
export function withoutKeys(view: RunView, ...keys: (keyof RunView)[]): RunView {
  const rest = { ...view };
  for (const key of keys) delete rest[key];
  return rest;
}

/** What is selected in a run: a step, one of its tasks, an iteration, an attempt. */
export interface Selection {
  step: string;
  task?: string;
  iteration?: number;
  attempt?: number;
}

export function readSelection(view: RunView): Selection | null {
  if (view.step === undefined) return null;
  const { step, task, iteration, attempt } = view;
  return { step, ...omitUndefined({ task, iteration, attempt }) };
}

/** The view with another selection, or none. */
export function withSelection(view: RunView, selection: Selection | null): RunView {
  const rest = { ...view };
  delete rest.step;
  delete rest.task;
  delete rest.iteration;
  delete rest.attempt;
  delete rest.from;
  return { ...rest, ...selection };
}

/** The address of a selection as the CLI writes it: `step#iteration/task@attempt`. */
export function formatAddress({ step, task, iteration, attempt }: Selection): string {
  const where = iteration === undefined ? step : `${step}#${iteration}`;
  if (task === undefined) return where;
  return `${where}/${task}${attempt === undefined ? "" : `@${attempt}`}`;
}
