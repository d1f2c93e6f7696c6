// What the tasks of the run wrote: merged or of the selection, filtered, followed, downloaded.
import { useEffect, useMemo, useRef, useState } from "react";
import { useVirtualizer } from "@tanstack/react-virtual";
import { readLogs } from "../../api/queries";
import { isLive } from "../../lib/status";
import { stripAnsi } from "../../lib/ansi";
import { omitUndefined } from "../../lib/search";
import { ProblemNote } from "../../parts/ProblemNote";
import { saveFile } from "../../parts/saveFile";
import { showFailure, showToast } from "../../parts/toasts";
import { useRun } from "../context";
import { readSelection } from "../runView";
import { useCursorTime } from "../time/cursor";
import { LogBar } from "./LogBar";
import { LogRow } from "./LogRow";
import { useLogReader, type LogFilter } from "./logLines";
import "./logs.css";

const lineHeight = 20;
/** How close to the end a reader has to be for the view to follow it. */
const followDistance = 24;

/** The last lines of the list that are in view when the next ones are read. */
const readAhead = 50;

export function LogsTab() {
  const { detail, view, setView } = useRun();
  const until = useCursorTime();
  const isOpen = isLive(detail.status) && until === undefined;
  const filter = useLogFilter(until);
  const [isFollowed, setIsFollowed] = useState(isOpen && view.log === undefined);
  const options = { position: view.log, isLive: isOpen, isFollowed: isFollowed && isOpen };
  const { lines, hasEarlier, hasLater, isReading, error, reader } = useLogReader(detail.execution_id, filter, options);
  const [isWrapped, setIsWrapped] = useState(true);
  const scrollRef = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scrollRef.current,
    estimateSize: () => lineHeight,
    getItemKey: (index) => lines[index]?.position ?? index,
    overscan: 30,
  });
  useEffect(() => {
    if (isFollowed && lines.length > 0) virtual.scrollToIndex(lines.length - 1);
  }, [isFollowed, lines.length, virtual]);

  const wanted = view.log;
  const hasWanted = lines.some((line) => line.position === wanted);
  useEffect(() => {
    const index = lines.findIndex((line) => line.position === wanted);
    if (index >= 0) virtual.scrollToIndex(index, { align: "center" });
    // Scrolls once the line is there, not whenever another arrives.
  }, [wanted, hasWanted, virtual]);
  const isFilled = lines.length > 0;
  useEffect(() => {
    // The last lines of a long log are loaded, so its end is shown. A log that is loaded as a whole starts at the top.
    if (isFilled && hasEarlier && wanted === undefined) virtual.scrollToIndex(lines.length - 1);
    // Only when the first lines of a reader arrive.
  }, [reader, isFilled, virtual]);
  const lastShown = virtual.getVirtualItems().at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasLater && !isReading && lastShown >= lines.length - readAhead) void reader.readLater();
  }, [hasLater, isReading, lastShown, lines.length, reader]);

  const goTo = (position: number) => setView((current) => ({ ...current, log: position }), true);
  const goToFirstError = async () => {
    try {
      const found = await readLogs(detail.execution_id, { ...filter, level: "error", after: 0, limit: 1 });
      const first = found.lines[0];
      if (!first) return showToast({ tone: "done", text: "No line is an error" });
      setIsFollowed(false);
      goTo(first.position);
    } catch (failure) {
      showFailure("The first error was not found", failure);
    }
  };
  const loadEarlier = async () => {
    const count = lines.length;
    setIsFollowed(false);
    await reader.readEarlier();
    virtual.scrollToIndex(Math.max(0, reader.getState().lines.length - count), { align: "start" });
  };
  const save = () => {
    const text = lines.map((line) => `${line.time} ${line.step}/${line.task} ${stripAnsi(line.text)}\n`).join("");
    saveFile(`${detail.execution_id}.log`, text, "text/plain");
  };

  return (
    <>
      <LogBar
        count={lines.length}
        hasEarlier={hasEarlier}
        isWrapped={isWrapped}
        isFollowed={isFollowed}
        onWrap={() => setIsWrapped(!isWrapped)}
        onFollow={() => setIsFollowed(!isFollowed)}
        onFirstError={() => void goToFirstError()}
        onSave={save}
      />
      {error !== null && <ProblemNote error={error} onRetry={() => void reader.readLater()} />}
      {hasEarlier && (
        <p className="log-earlier">
          <button type="button" className="link" onClick={() => void loadEarlier()}>
            Load earlier lines
          </button>
        </p>
      )}
      {lines.length === 0 && error === null && (
        <p className="notice muted">{isReading ? "" : "No task wrote a line that matches."}</p>
      )}
      <div
        ref={scrollRef}
        className="log"
        role="log"
        aria-label="Output of the tasks"
        aria-live="off"
        tabIndex={0}
        onWheel={(event) => {
          const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
          const distance = scrollHeight - scrollTop - clientHeight;
          if (event.deltaY < 0) setIsFollowed(false);
          else if (distance < followDistance && isOpen && !hasLater) setIsFollowed(true);
        }}
      >
        <div className="log-space" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const line = lines[item.index];
            return (
              line && (
                <LogRow
                  key={item.key}
                  ref={virtual.measureElement}
                  index={item.index}
                  start={item.start}
                  line={line}
                  previous={lines[item.index - 1]}
                  isWrapped={isWrapped}
                  isTarget={line.position === wanted}
                  onPick={goTo}
                />
              )
            );
          })}
        </div>
      </div>
    </>
  );
}

/** The filter of the URL; null until the time of the cursor is known. */
function useLogFilter(until: string | null | undefined): LogFilter | null {
  const { view } = useRun();
  return useMemo(() => {
    if (until === null) return null;
    const place = view.from === "selection" ? readSelection(view) : null;
    return omitUndefined({
      step: place?.step,
      task: place?.task,
      iteration: place?.iteration,
      attempt: place?.attempt,
      q: view.q,
      level: view.level,
      until_time: until,
    });
    // The selection is read from the view.
  }, [until, view.from, view.step, view.task, view.iteration, view.attempt, view.q, view.level]);
}
