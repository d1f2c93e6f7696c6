// What the tasks of the run wrote: merged or of the selection, filtered, followed, downloaded.
import { useEffect, useMemo, useRef, useState } from "react";
import { useVirtualizer } from "@tanstack/react-virtual";
import { isLive } from "../../lib/status";
import { stripAnsi } from "../../lib/ansi";
import { omitUndefined } from "../../lib/search";
import { ProblemNote } from "../../parts/ProblemNote";
import { saveFile } from "../../parts/saveFile";
import { useRun } from "../context";
import { readSelection } from "../runView";
import { LogBar } from "./LogBar";
import { LogRow } from "./LogRow";
import { useLogReader, type LogFilter } from "./logLines";
import "./logs.css";

const lineHeight = 20;
/** How close to the end a reader has to be for the view to follow it. */
const followDistance = 24;

export function LogsTab() {
  const { detail, view, setView } = useRun();
  const selection = readSelection(view);
  const filter = useMemo<LogFilter>(() => {
    const place = view.from === "selection" ? selection : null;
    return omitUndefined({
      step: place?.step,
      task: place?.task,
      iteration: place?.iteration,
      attempt: place?.attempt,
      q: view.q,
      level: view.level,
    });
    // The selection is read from the view.
  }, [view.from, view.step, view.task, view.iteration, view.attempt, view.q, view.level]);
  const isRunLive = isLive(detail.status);
  const { lines, dropped, isReading, error, retry } = useLogReader(detail.execution_id, filter, isRunLive);
  const [isWrapped, setIsWrapped] = useState(true);
  const [isFollowed, setIsFollowed] = useState(isRunLive);
  const scrollRef = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scrollRef.current,
    estimateSize: () => lineHeight,
    getItemKey: (index) => lines[index]?.number ?? index,
    overscan: 30,
  });
  useEffect(() => {
    if (isFollowed && lines.length > 0) virtual.scrollToIndex(lines.length - 1);
  }, [isFollowed, lines.length, virtual]);

  const wanted = view.line;
  useEffect(() => {
    const index = lines.findIndex((line) => line.number === wanted);
    if (index >= 0) virtual.scrollToIndex(index, { align: "center" });
    // Scrolls once the line is there, not whenever another arrives.
  }, [wanted, lines.length > 0, virtual]);

  const goTo = (number: number) => setView((current) => ({ ...current, line: number }), true);
  const firstError = lines.find((line) => line.level === "error");
  const save = () => {
    const text = lines.map((line) => `${line.time} ${line.step}/${line.task} ${stripAnsi(line.text)}\n`).join("");
    saveFile(`${detail.execution_id}.log`, text, "text/plain");
  };

  return (
    <>
      <LogBar
        count={lines.length}
        dropped={dropped}
        isWrapped={isWrapped}
        isFollowed={isFollowed}
        onWrap={() => setIsWrapped(!isWrapped)}
        onFollow={() => setIsFollowed(!isFollowed)}
        onFirstError={firstError && (() => (setIsFollowed(false), goTo(firstError.number)))}
        onSave={save}
      />
      {error !== null && <ProblemNote error={error} onRetry={retry} />}
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
          else if (distance < followDistance && isRunLive) setIsFollowed(true);
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
                  isTarget={line.number === wanted}
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
