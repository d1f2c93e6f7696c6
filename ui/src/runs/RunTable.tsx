// The table of runs: only the visible rows exist in the document.
import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import type { Run } from "../api/types";
import { describePlace } from "../lib/status";
import { StatusMark } from "../parts/StatusMark";
import { Age, RunTook } from "../parts/Time";
import { useIsNarrow } from "../parts/useMedia";
import { areAllSelected, isSelected as isInSelection, type Selection } from "../lib/selection";
import { useRowHeight } from "../shell/preferences";
import "./runs.css";

interface RunTableProps {
  runs: Run[];
  selectedId?: string | undefined;
  onSelect?: (id: string) => void;
  /** Called when the end of the list comes into view. */
  onEnd?: () => void;
  foot?: React.ReactNode;
  /** The rows that are selected for an action; without it, rows have no checkbox. */
  selection?: Selection | undefined;
  onToggle?: (id: string, isRange: boolean) => void;
  onToggleAll?: () => void;
}

const narrowHeight = 56;

export function RunTable({ runs, selectedId, onSelect, onEnd, foot, ...checks }: RunTableProps) {
  const { selection, onToggle, onToggleAll } = checks;
  const scrollRef = useRef<HTMLDivElement>(null);
  const rowHeight = useRowHeight();
  const isNarrow = useIsNarrow();
  const height = isNarrow ? narrowHeight : rowHeight;
  const headHeight = isNarrow ? 0 : rowHeight;
  const virtual = useVirtualizer({
    count: runs.length,
    getScrollElement: () => scrollRef.current,
    estimateSize: () => height,
    getItemKey: (index) => runs[index]?.execution_id ?? index,
    overscan: 12,
    scrollMargin: headHeight,
    scrollPaddingStart: headHeight,
  });
  useEffect(() => virtual.measure(), [height, virtual]);

  const items = virtual.getVirtualItems();
  const isAtEnd = (items.at(-1)?.index ?? -1) >= runs.length - 10;
  useEffect(() => {
    if (isAtEnd) onEnd?.();
  }, [isAtEnd, onEnd]);

  const selected = runs.findIndex((run) => run.execution_id === selectedId);
  useEffect(() => {
    if (selected < 0) return;
    virtual.scrollToIndex(selected);
    requestAnimationFrame(() => {
      const link = scrollRef.current?.querySelector<HTMLElement>(`[data-id="${selectedId}"]`);
      if (link && scrollRef.current?.contains(document.activeElement)) link.focus();
    });
  }, [selected, selectedId, virtual]);

  return (
    <div
      className={`run-table panel ${selection ? "run-table-checks" : ""}`}
      role="table"
      aria-label="Runs"
      aria-rowcount={runs.length + 1}
    >
      <div className="run-scroll" ref={scrollRef} role="presentation">
        <div role="rowgroup" className="run-head-group">
          <div className="run-row run-head" role="row" aria-rowindex={1}>
            {selection && (
              <span role="columnheader" className="run-check">
                <input
                  type="checkbox"
                  aria-label="Select all runs that are loaded"
                  checked={areAllSelected(
                    selection,
                    runs.map((run) => run.execution_id),
                  )}
                  onChange={() => onToggleAll?.()}
                />
              </span>
            )}
            <span role="columnheader">Status</span>
            <span role="columnheader">Playbook</span>
            <span role="columnheader" className="run-id">
              Run
            </span>
            <span role="columnheader">Started</span>
            <span role="columnheader" className="run-took">
              Took
            </span>
            <span role="columnheader" className="run-where">
              Step or error
            </span>
            <span role="columnheader" className="run-labels">
              Labels
            </span>
          </div>
        </div>
        <div className="run-space" style={{ height: virtual.getTotalSize() }} role="rowgroup">
          {items.map((item) => {
            const run = runs[item.index];
            return (
              run && (
                <RunRow
                  key={run.execution_id}
                  run={run}
                  index={item.index}
                  style={{ height: item.size, transform: `translateY(${item.start - headHeight}px)` }}
                  isSelected={run.execution_id === selectedId}
                  onSelect={onSelect}
                  isChecked={selection ? isInSelection(selection, run.execution_id) : undefined}
                  onToggle={onToggle}
                />
              )
            );
          })}
        </div>
        {foot}
      </div>
    </div>
  );
}

interface RunRowProps {
  run: Run;
  index: number;
  style: React.CSSProperties;
  isSelected: boolean;
  onSelect: ((id: string) => void) | undefined;
  isChecked: boolean | undefined;
  onToggle: ((id: string, isRange: boolean) => void) | undefined;
}

function RunRow({ run, index, style, isSelected, onSelect, isChecked, onToggle }: RunRowProps) {
  const labels = Object.entries(run.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return (
    <div
      className="run-row run-body-row"
      role="row"
      aria-rowindex={index + 2}
      data-selected={isSelected || undefined}
      data-status={run.status}
      style={style}
    >
      {isChecked !== undefined && (
        <span role="cell" className="run-check">
          <input
            type="checkbox"
            aria-label={`Select run ${run.execution_id}`}
            checked={isChecked}
            onChange={(event) =>
              onToggle?.(run.execution_id, event.nativeEvent instanceof MouseEvent && event.nativeEvent.shiftKey)
            }
          />
        </span>
      )}
      <span role="cell" className="run-status">
        <StatusMark status={run.cancelling && run.status === "RUNNING" ? "cancelling" : run.status} />
      </span>
      <span role="cell" className="run-playbook truncate">
        <Link
          to="/runs/$id"
          params={{ id: run.execution_id }}
          className="run-link"
          data-id={run.execution_id}
          onFocus={() => onSelect?.(run.execution_id)}
        >
          {run.path}
          <span className="muted">@{run.version}</span>
        </Link>
      </span>
      <span role="cell" className="run-id mono muted truncate">
        {run.execution_id}
      </span>
      <span role="cell" className="run-started muted">
        <Age at={run.started_at} />
      </span>
      <span role="cell" className="run-took">
        <RunTook run={run} />
      </span>
      <span
        role="cell"
        className={`run-where truncate ${run.status === "FAILED" ? "tone-failed" : "muted"}`}
        title={run.error ?? undefined}
      >
        {describePlace(run)}
      </span>
      <span role="cell" className="run-labels muted truncate" title={labels.join("\n") || undefined}>
        {labels.join(" ")}
      </span>
    </div>
  );
}
