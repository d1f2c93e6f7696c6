// The page of a run: header, tabs that share one selection, and the drawer of what is selected.
import * as Tabs from "@radix-ui/react-tabs";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo } from "react";
import { runQuery } from "../api/queries";
import type { RunDetail } from "../api/types";
import { ProblemNote } from "../parts/ProblemNote";
import { useKeys } from "../shell/keyboard";
import { Page } from "../shell/Page";
import { RunContext, useRun, type RunContextValue } from "./context";
import { RunDialogs } from "./dialogs/RunDialogs";
import { Drawer } from "./drawer/Drawer";
import { EventsTab } from "./events/EventsTab";
import { useEventLog } from "./liveRun";
import { LogsTab } from "./logs/LogsTab";
import { ResultsTab } from "./results/ResultsTab";
import { RunHeader } from "./RunHeader";
import { runTabs, withSelection, type RunTab, type RunView, type Selection } from "./runView";
import { SourceTab } from "./source/SourceTab";
import { StateTab } from "./state/StateTab";
import { TimeBar } from "./time/TimeBar";
import { useFailureKeys } from "./useFailureKeys";
import "./run.css";

const GraphTab = lazy(() => import("./graph/GraphTab"));
const LoopsTab = lazy(() => import("./loops/LoopsTab"));
const TimelineTab = lazy(() => import("./timeline/TimelineTab"));
const route = getRouteApi("/runs/$id");

export function RunPage() {
  const { id } = route.useParams();
  const { data, error, refetch } = useQuery(runQuery(id));
  if (data) return <LoadedRun key={id} detail={data} />;
  return <Page title={`Run ${id}`}>{error && <ProblemNote error={error} onRetry={() => void refetch()} />}</Page>;
}

function LoadedRun({ detail }: { detail: RunDetail }) {
  const log = useEventLog(detail.execution);
  const view = route.useSearch();
  const navigate = route.useNavigate();
  const setView = useCallback(
    (change: (view: RunView) => RunView, isReplaced = false) =>
      void navigate({ search: (search) => change(search), replace: isReplaced }),
    [navigate],
  );
  const select = useCallback(
    (selection: Selection | null) => setView((search) => withSelection(search, selection)),
    [setView],
  );
  const value = useMemo<RunContextValue>(
    () => ({ detail, log, view, setView, select }),
    [detail, log, view, setView, select],
  );
  return (
    <RunContext value={value}>
      <RunBody />
    </RunContext>
  );
}

const tabNames: Record<RunTab, string> = {
  graph: "Graph",
  timeline: "Timeline",
  loops: "Loops",
  logs: "Logs",
  events: "Events",
  results: "Results",
  state: "State",
  source: "Source",
};

function RunBody() {
  const { detail, view, setView, select } = useRun();
  const tab = view.tab ?? "graph";
  const openTab = (next: RunTab) => setView((search) => ({ ...search, tab: next }));
  useKeys("Run", [
    ...runTabs.map((name, index) => ({ keys: String(index + 1), label: tabNames[name], run: () => openTab(name) })),
    { keys: "l", label: "Logs", run: () => openTab("logs") },
    { keys: "e", label: "Events", run: () => openTab("events") },
    { keys: "escape", label: "Close the drawer", run: () => view.step && select(null) },
  ]);
  useFailureKeys();

  return (
    <main className="page">
      <title>{`${detail.execution.path} ${detail.execution_id} · NoETL`}</title>
      <RunHeader />
      <Tabs.Root className="run-tabs" value={tab} onValueChange={(next) => openTab(next as RunTab)}>
        <Tabs.List className="tabs" aria-label="Views of the run">
          {runTabs.map((name) => (
            <Tabs.Trigger key={name} value={name} className="tab">
              {tabNames[name]}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <div className="run-split">
          <Tabs.Content value={tab} className="run-tab" tabIndex={-1}>
            <Suspense fallback={null}>
              {tab === "graph" && <GraphTab />}
              {tab === "timeline" && <TimelineTab />}
              {tab === "loops" && <LoopsTab />}
            </Suspense>
            {tab === "logs" && <LogsTab />}
            {tab === "events" && <EventsTab />}
            {tab === "results" && <ResultsTab />}
            {tab === "state" && <StateTab />}
            {tab === "source" && <SourceTab />}
          </Tabs.Content>
          <Drawer />
        </div>
        <TimeBar />
      </Tabs.Root>
      <RunDialogs />
    </main>
  );
}
