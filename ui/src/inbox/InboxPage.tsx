// The inbox: what waits for a person or another system in all runs. The filters and the selected wait are in the URL.
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { inboxQuery } from "../api/queries";
import type { InboxEntry } from "../api/types";
import { listWaitingRunsCommand } from "../lib/cli";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { ProblemNote } from "../parts/ProblemNote";
import { useKeys } from "../shell/keyboard";
import { Page } from "../shell/Page";
import { EmptyInbox } from "./EmptyInbox";
import { InboxList } from "./InboxList";
import { WaitDetail } from "./WaitDetail";
import { hasFilter, toInboxParams, waitKey, type InboxView } from "./waitView";
import "./inbox.css";

const route = getRouteApi("/inbox");
const refreshMs = 3000;

export function InboxPage() {
  const view = route.useSearch();
  const navigate = route.useNavigate();
  const setView = (next: InboxView, replace = false) => void navigate({ search: next, replace });
  const list = useInfiniteQuery({ ...inboxQuery(toInboxParams(view)), refetchInterval: refreshMs });
  const waits = useMemo(() => list.data?.pages.flatMap((page) => page.waits as InboxEntry[]) ?? [], [list.data]);
  const selected = view.wait ?? (waits[0] && waitKey(waits[0]));
  const move = (step: number) => {
    const index = waits.findIndex((wait) => waitKey(wait) === selected);
    const next = waits[index < 0 ? 0 : Math.max(0, Math.min(waits.length - 1, index + step))];
    if (next) setView({ ...view, wait: waitKey(next) }, true);
  };
  useKeys("Inbox", [
    { keys: "j", label: "Next wait", run: () => move(1) },
    { keys: "k", label: "Previous wait", run: () => move(-1) },
  ]);
  const isEmpty = list.isSuccess && waits.length === 0;

  return (
    <Page
      title="Inbox"
      actions={
        <>
          <Button
            isSmall
            look="quiet"
            aria-pressed={view.order === "oldest"}
            onClick={() => setView(withOrder(view, view.order === "oldest" ? undefined : "oldest"))}
          >
            Oldest first
          </Button>
          <CopyButton text={listWaitingRunsCommand(view)} what="the command">
            Copy CLI
          </CopyButton>
          <CopyButton text={window.location.href} what="the link">
            Copy link
          </CopyButton>
        </>
      }
    >
      {hasFilter(view) && <InboxBar view={view} onChange={setView} />}
      {list.error && <ProblemNote error={list.error} onRetry={() => void list.refetch()} />}
      {isEmpty && !view.wait ? (
        <div className="page-body">
          <EmptyInbox isFiltered={hasFilter(view)} onClear={() => setView({})} />
        </div>
      ) : (
        <div className="inbox-split">
          <InboxList
            waits={waits}
            selected={selected}
            hasMore={list.hasNextPage}
            onMore={() => void list.fetchNextPage()}
            searchOf={(wait) => ({ ...view, wait: waitKey(wait) })}
          />
          {selected && <WaitDetail key={selected} waitKey={selected} />}
        </div>
      )}
    </Page>
  );
}

function withOrder({ order: _, ...view }: InboxView, order: "oldest" | undefined): InboxView {
  return { ...view, ...(order && { order }) };
}

function withoutWait({ wait: _, ...view }: InboxView): InboxView {
  return view;
}

interface InboxBarProps {
  view: InboxView;
  onChange: (view: InboxView) => void;
}

function InboxBar({ view, onChange }: InboxBarProps) {
  const filters = [
    ["playbook", "path"],
    ["signal", "signal"],
    ["run", "run"],
  ] as const;
  const remove = (name: "path" | "signal" | "run") => {
    const { [name]: _, ...next } = withoutWait(view);
    onChange(next);
  };
  return (
    <div className="inbox-bar">
      {filters.map(
        ([word, name]) =>
          view[name] && (
            <Button key={name} isSmall onClick={() => remove(name)}>
              <span className="visually-hidden">Remove the filter </span>
              {word}: <span className="mono">{view[name]}</span> ×
            </Button>
          ),
      )}
    </div>
  );
}
