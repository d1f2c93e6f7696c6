// What the parts of the page of a run share: the run, its log, the view in the URL, and how to change the view.
import { createContext, use } from "react";
import type { RunDetail } from "../api/types";
import type { EventLog } from "./eventLog";
import type { RunView, Selection } from "./runView";

export interface RunContextValue {
  detail: RunDetail;
  log: EventLog;
  view: RunView;
  /** Changes parts of the view; `isReplaced` does not add a step to the history. */
  setView: (change: (view: RunView) => RunView, isReplaced?: boolean) => void;
  select: (selection: Selection | null) => void;
}

export const RunContext = createContext<RunContextValue | null>(null);

export function useRun(): RunContextValue {
  const value = use(RunContext);
  if (!value) throw new Error("the page of a run provides its context");
  return value;
}
