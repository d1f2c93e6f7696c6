// The results of the run by step, and the value of the one that is open. A value is read when it is opened.
import { useInfiniteQuery } from "@tanstack/react-query";
import { resultListQuery } from "../../api/queries";
import type { ReferenceEntry } from "../../api/types";
import { formatBytes } from "../../lib/json";
import { ProblemNote } from "../../parts/ProblemNote";
import { StatusMark } from "../../parts/StatusMark";
import { useRun } from "../context";
import { formatAddress } from "../runView";
import { useCursor, useRunGraph } from "../time/cursor";
import { formatResultKey, readResultStep } from "./resultKey";
import { ResultValue } from "./ResultValue";
import { RunResult, runResultKey } from "./RunResult";
import "./results.css";

export function ResultsTab() {
  const { detail, view, setView } = useRun();
  const { data, error, refetch } = useRunGraph();
  const openKey = view.result ?? runResultKey;
  const openStep = readResultStep(openKey);
  const open = (result: string) => setView((current) => ({ ...current, result }));
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  const steps = data?.steps.filter((step) => step.status !== "not_reached" && step.tasks.length > 0) ?? [];

  return (
    <div className="results">
      <nav className="results-list" aria-label="Results">
        <button
          type="button"
          className="result-row"
          aria-current={openKey === runResultKey}
          onClick={() => open(runResultKey)}
        >
          <StatusMark status={data?.status ?? detail.status} isShort />
          <span className="grow">Result of the run</span>
        </button>
        {steps.map((step) => (
          <StepResults
            key={step.step}
            step={step.step}
            openKey={openKey}
            isOpen={openStep === step.step || steps.length <= 6}
            onOpen={open}
          />
        ))}
      </nav>
      <div className="results-value">
        {openKey === runResultKey ? <RunResult /> : <OpenResult resultKey={openKey} />}
      </div>
    </div>
  );
}

interface StepResultsProps {
  step: string;
  openKey: string;
  isOpen: boolean;
  onOpen: (key: string) => void;
}

function StepResults({ step, openKey, isOpen, onOpen }: StepResultsProps) {
  const { detail } = useRun();
  const at = useCursor();
  const { data, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    ...resultListQuery(detail.execution_id, { step, ...(at === undefined ? {} : { until_seq: at }) }),
    enabled: isOpen,
  });
  const results = data?.pages.flatMap((page) => page.results) ?? [];
  const first = results[0];
  return (
    <section>
      <h2 className="results-step mono">
        {isOpen ? (
          step
        ) : (
          <button type="button" className="link mono" onClick={() => onOpen(`${step}/`)}>
            {step}
          </button>
        )}
      </h2>
      {isOpen && data && !first && <p className="muted results-none">No result yet.</p>}
      {results.map((entry) => (
        <ResultRow
          key={formatResultKey(entry)}
          entry={entry}
          isCurrent={openKey === formatResultKey(entry)}
          onOpen={() => onOpen(formatResultKey(entry))}
        />
      ))}
      {hasNextPage && (
        <button
          type="button"
          className="link results-more"
          disabled={isFetchingNextPage}
          onClick={() => void fetchNextPage()}
        >
          More results
        </button>
      )}
    </section>
  );
}

interface ResultRowProps {
  entry: ReferenceEntry;
  isCurrent: boolean;
  onOpen: () => void;
}

function ResultRow({ entry, isCurrent, onOpen }: ResultRowProps) {
  const name = formatAddress({
    step: entry.run > 1 ? `run ${entry.run}` : "",
    ...(entry.task ? { task: entry.task } : {}),
    ...(entry.iteration == null ? {} : { iteration: entry.iteration }),
    ...(entry.attempt > 1 ? { attempt: entry.attempt } : {}),
  });
  return (
    <button type="button" className="result-row" aria-current={isCurrent} onClick={onOpen}>
      <StatusMark status={entry.status} isShort />
      <span className="mono truncate grow">
        {name.replace(/^\//, "")}
        {entry.page != null && ` page ${entry.page}`}
      </span>
      {entry.reference && <span className="tag">stored</span>}
      <span className="muted">{formatBytes(entry.bytes)}</span>
    </button>
  );
}

function OpenResult({ resultKey }: { resultKey: string }) {
  const { detail } = useRun();
  const at = useCursor();
  const step = readResultStep(resultKey);
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    resultListQuery(detail.execution_id, { step, ...(at === undefined ? {} : { until_seq: at }) }),
  );
  const results = data?.pages.flatMap((page) => page.results) ?? [];
  const entry = results.find((candidate) => formatResultKey(candidate) === resultKey);
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (entry) return <ResultValue key={resultKey} entry={entry} />;
  if (!data) return null;
  return (
    <div className="notice">
      <p className="muted">Choose a result from the list.</p>
      {hasNextPage && (
        <button type="button" className="link" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          Load more results of {step}
        </button>
      )}
    </div>
  );
}
