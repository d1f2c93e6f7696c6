// The list of runs. The filter and the selected row are in the URL.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo, useRef, useState } from "react";
import type { BulkAction } from "../api/types";
import { facetsQuery, runsQuery } from "../api/queries";
import { listRunsCommand } from "../lib/cli";
import { toApiParams, type RunFilter } from "../lib/filter";
import { emptySelection, toggleAllRows, toggleRow } from "../lib/selection";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { Histogram } from "../parts/Histogram";
import { ProblemNote } from "../parts/ProblemNote";
import { useKeys } from "../shell/keyboard";
import { Page } from "../shell/Page";
import { useMay } from "../shell/role";
import { BulkBar } from "./BulkBar";
import { BulkDialog } from "./BulkDialog";
import { EmptyRuns } from "./EmptyRuns";
import { FilterBar } from "./FilterBar";
import { useLiveRuns } from "./liveRuns";
import { RunTable } from "./RunTable";
import { StatusToggles } from "./StatusToggles";

const route = getRouteApi("/runs");
const facetsPauseMs = 3000;

export function RunsPage() {
  const { row, ...filter } = route.useSearch();
  const navigate = route.useNavigate();
  const params = toApiParams(filter);
  const list = useInfiniteQuery(runsQuery(params));
  const facets = useQuery({ ...facetsQuery(params), placeholderData: (previous) => previous });
  const runs = useMemo(() => list.data?.pages.flatMap((page) => page.executions) ?? [], [list.data]);
  const refreshFacets = useRefreshFacets();
  const { freshCount, showFresh } = useLiveRuns(params, list.isSuccess, refreshFacets);

  const mayOperate = useMay("operator");
  const [selection, setSelection] = useState(emptySelection);
  const [action, setAction] = useState<BulkAction>();
  const ids = useMemo(() => runs.map((run) => run.execution_id), [runs]);
  const toggle = (id: string, isRange: boolean) => setSelection((known) => toggleRow(known, ids, id, isRange));
  const hasSelection = selection.isAll || selection.ids.size > 0;

  const setFilter = (next: RunFilter) => {
    setSelection(emptySelection);
    void navigate({ search: next });
  };
  const select = useCallback(
    (id: string) => void navigate({ search: (search) => ({ ...search, row: id }), replace: true }),
    [navigate],
  );
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  const loadMore = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const move = (step: number) => {
    const index = runs.findIndex((run) => run.execution_id === row);
    const next = runs[index < 0 ? 0 : Math.max(0, Math.min(runs.length - 1, index + step))];
    if (next) select(next.execution_id);
  };
  useKeys("Rows", [
    { keys: "j", label: "Next run", run: () => move(1) },
    { keys: "k", label: "Previous run", run: () => move(-1) },
    { keys: "enter", label: "Open the run", run: () => row && void navigate({ to: "/runs/$id", params: { id: row } }) },
    { keys: "n", label: "Show new runs", run: showFresh },
    ...(mayOperate ? [{ keys: "x", label: "Select the run", run: () => row && toggle(row, false) }] : []),
  ]);

  return (
    <Page
      title="Runs"
      actions={
        <>
          <CopyButton text={listRunsCommand(filter)} what="the command">
            Copy CLI
          </CopyButton>
          <CopyButton text={window.location.href} what="the link">
            Copy link
          </CopyButton>
        </>
      }
    >
      <div className="runs-page">
        <FilterBar filter={filter} facets={facets.data} onChange={setFilter} />
        {facets.data && (
          <>
            <StatusToggles filter={filter} facets={facets.data} onChange={setFilter} />
            {facets.data.total > 0 && (
              <Histogram facets={facets.data} onPick={(since, until) => setFilter({ ...filter, since, until })} />
            )}
          </>
        )}
        {hasSelection && mayOperate && (
          <BulkBar
            count={selection.ids.size}
            isAll={selection.isAll}
            matching={facets.data?.is_complete ? facets.data.total : null}
            onSelectAll={() => setSelection({ ids: new Set(), isAll: true })}
            onClear={() => setSelection(emptySelection)}
            onAction={setAction}
          />
        )}
        {action && (
          <BulkDialog
            action={action}
            params={params}
            ids={selection.isAll ? null : [...selection.ids]}
            onClose={() => setAction(undefined)}
          />
        )}
        {list.error ? (
          <ProblemNote error={list.error} onRetry={() => void list.refetch()} />
        ) : list.isSuccess && runs.length === 0 ? (
          <EmptyRuns filter={filter} onClear={() => setFilter({})} />
        ) : (
          <div className="run-table-frame">
            <RunTable
              runs={runs}
              selectedId={row}
              onSelect={select}
              onEnd={loadMore}
              selection={mayOperate ? selection : undefined}
              onToggle={toggle}
              onToggleAll={() => setSelection((known) => toggleAllRows(known, ids))}
              foot={isFetchingNextPage && <p className="list-foot muted">Loading more…</p>}
            />
            {freshCount > 0 && (
              <Button isSmall look="primary" className="fresh" onClick={showFresh}>
                {freshCount} new
              </Button>
            )}
          </div>
        )}
      </div>
    </Page>
  );
}

/** Reads the facets again after changes, at most every few seconds. */
function useRefreshFacets(): () => void {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  return useCallback(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      void client.invalidateQueries({ queryKey: ["facets"] });
    }, facetsPauseMs);
  }, [client]);
}
