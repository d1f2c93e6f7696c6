// The event log up to the cursor: every event in order, or those that match a filter. Any part is loaded when it comes into
// view.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useRef, useState } from "react";
import { readEventPage } from "../../api/queries";
import type { EventParams, LogEvent } from "../../api/types";
import { isLive } from "../../lib/status";
import { ProblemNote } from "../../parts/ProblemNote";
import { useRowHeight } from "../../shell/preferences";
import { useRun } from "../context";
import { useLogVersion } from "../liveRun";
import { useCursor } from "../time/cursor";
import { EventBar } from "./EventBar";
import { useEventFilter } from "./eventFilter";
import { EventRow } from "./EventRow";
import "./events.css";

export function EventsTab() {
  const filter = useEventFilter();
  return filter ? <FoundEvents key={JSON.stringify(filter)} filter={filter} /> : <AllEvents />;
}

/** Browsers limit the height of an element, so a very long log is shown in parts of this many events. */
const windowMax = 400_000;
const windowStep = 100_000;

function AllEvents() {
  const { detail, log, view } = useRun();
  useLogVersion(log);
  const at = useCursor();
  const length = at ?? log.length;
  const center = view.seq ?? (at !== undefined || isLive(detail.status) ? length : 1);
  const base = findWindow(center, length);
  const count = Math.min(windowMax, length - base);
  const get = useCallback((index: number) => log.get(base + index + 1), [log, base]);
  const onRange = useCallback(
    (first: number, last: number) => log.load(base + first + 1, base + last + 1),
    [log, base],
  );
  return (
    <EventList
      key={base}
      base={base}
      count={count}
      get={get}
      onRange={onRange}
      error={log.error}
      onRetry={() => log.retry()}
    />
  );
}

/** How many events come before the part of the log that is shown around an event. */
function findWindow(seq: number, length: number): number {
  if (length <= windowMax) return 0;
  const first = Math.floor((seq - windowMax / 2) / windowStep) * windowStep;
  const last = Math.ceil((length - windowMax) / windowStep) * windowStep;
  return Math.max(0, Math.min(first, last));
}

const foundPage = 200;

function FoundEvents({ filter }: { filter: EventParams }) {
  const { detail } = useRun();
  const id = detail.execution_id;
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ["run", id, "events", filter],
    queryFn: ({ pageParam }) => readEventPage(id, { ...filter, after_seq: pageParam, limit: foundPage }),
    initialPageParam: 0,
    getNextPageParam: (page) => page.nextAfterSeq ?? undefined,
  });
  const events = data?.pages.flatMap((page) => page.events) ?? [];
  // A page can be empty and still have a next one.
  const isShort = hasNextPage && !isFetchingNextPage && events.length === 0;
  useEffect(() => {
    if (isShort) void fetchNextPage();
  }, [isShort, fetchNextPage, data]);
  const onRange = (_first: number, last: number) => {
    if (last >= events.length - 20 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  };
  return (
    <EventList
      base={0}
      count={events.length}
      get={(index) => events[index]}
      onRange={onRange}
      error={error}
      onRetry={() => void refetch()}
    />
  );
}

interface EventListProps {
  /** Number of events before the first of the list. */
  base: number;
  count: number;
  get: (index: number) => LogEvent | undefined;
  onRange: (first: number, last: number) => void;
  error: unknown;
  onRetry: () => void;
}

function EventList({ base, count, get, onRange, error, onRetry }: EventListProps) {
  const { detail, view, setView } = useRun();
  const at = useCursor();
  const isFiltered = useEventFilter() !== null;
  const isRunLive = isLive(detail.status);
  const [openSeqs, setOpenSeqs] = useState<ReadonlySet<number>>(() => new Set(view.seq ? [view.seq] : []));
  const [isFollowed, setIsFollowed] = useState((isRunLive || at !== undefined) && view.seq === undefined);
  const scrollRef = useRef<HTMLDivElement>(null);
  const rowHeight = useRowHeight();
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => scrollRef.current,
    estimateSize: () => rowHeight,
    overscan: 20,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (count > 0) onRange(first, last);
  });
  useEffect(() => {
    if (isFollowed && count > 0) virtual.scrollToIndex(count - 1);
  }, [isFollowed, count, virtual]);

  const wanted = view.seq;
  useEffect(() => {
    if (wanted === undefined || isFiltered) return;
    setOpenSeqs((seqs) => new Set(seqs).add(wanted));
    virtual.scrollToIndex(wanted - 1 - base, { align: "center" });
  }, [wanted, base, isFiltered, virtual]);

  const toggle = (seq: number) => {
    const next = new Set(openSeqs);
    if (!next.delete(seq)) next.add(seq);
    setOpenSeqs(next);
    if (next.has(seq)) setView((current) => ({ ...current, seq }), true);
  };

  return (
    <>
      <EventBar
        base={base}
        count={count}
        isFiltered={isFiltered}
        isFollowed={isFollowed}
        onFollow={() => setIsFollowed(!isFollowed)}
      />
      {error ? <ProblemNote error={error} onRetry={onRetry} /> : null}
      <div className="event-row event-head" aria-hidden="true">
        <span>Seq</span>
        <span>Δt</span>
        <span>Type</span>
        <span>Entity</span>
        <span>Payload</span>
      </div>
      <div
        ref={scrollRef}
        className="events"
        role="list"
        aria-label="Events"
        onWheel={(event) => event.deltaY < 0 && setIsFollowed(false)}
      >
        <div className="events-space" style={{ height: virtual.getTotalSize() }} role="presentation">
          {items.map((item) => {
            const event = get(item.index);
            return (
              <div
                key={item.key}
                ref={virtual.measureElement}
                data-index={item.index}
                className="event-slot"
                role="listitem"
                style={{ transform: `translateY(${item.start}px)`, minHeight: rowHeight }}
              >
                {event && (
                  <EventRow
                    event={event}
                    previous={get(item.index - 1)}
                    isOpen={openSeqs.has(event.seq)}
                    isTarget={event.seq === wanted}
                    onToggle={() => toggle(event.seq)}
                  />
                )}
              </div>
            );
          })}
        </div>
      </div>
    </>
  );
}
