// Time travel: a slider over the events of the run with marks for failures. All tabs show the event that is chosen.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { failuresQuery } from "../../api/queries";
import { isLive } from "../../lib/status";
import { formatUtc } from "../../lib/time";
import { Button, IconButton } from "../../parts/Button";
import { useKeys } from "../../shell/keyboard";
import { useRun } from "../context";
import { useCursor, useCursorTime, withCursor } from "./cursor";
import { findFailure, listFailureSeqs, placeMarks } from "./marks";
import { ReplayBadge } from "./ReplayBadge";
import "./time.css";

/** Moves of the slider are collected for this time before the tabs follow. */
const settleMs = 120;

export function TimeBar() {
  const { detail, log, setView } = useRun();
  const newest = log.length;
  const cursor = useCursor();
  const time = useCursorTime();
  const shown = cursor ?? newest;
  const { data: groups = [] } = useQuery(failuresQuery(detail.execution_id));
  const failures = listFailureSeqs(groups);
  const goTo = (seq: number) => setView((view) => withCursor(view, seq, newest), true);
  const previous = findFailure(failures, shown, -1);
  const next = findFailure(failures, shown, 1);
  useKeys("Time travel", [
    { keys: ",", label: "Previous event", run: () => goTo(shown - 1) },
    { keys: ".", label: "Next event", run: () => goTo(shown + 1) },
  ]);
  const isRunLive = isLive(detail.status);

  return (
    <div className="time-bar" role="group" aria-label="Time travel">
      <IconButton
        isSmall
        icon="toStart"
        label="Previous failure"
        disabled={previous === undefined}
        onClick={() => previous !== undefined && goTo(previous)}
      />
      <IconButton
        isSmall
        icon="left"
        label="Previous event"
        keys=","
        disabled={shown <= 1}
        onClick={() => goTo(shown - 1)}
      />
      <TimeSlider shown={shown} newest={newest} marks={placeMarks(failures, newest)} onMove={goTo} />
      <IconButton
        isSmall
        icon="right"
        label="Next event"
        keys="."
        disabled={cursor === undefined}
        onClick={() => goTo(shown + 1)}
      />
      <IconButton
        isSmall
        icon="toEnd"
        label="Next failure"
        disabled={next === undefined}
        onClick={() => next !== undefined && goTo(next)}
      />
      <span className="time-seq" title={time ? formatUtc(time) : undefined}>
        event {shown.toLocaleString("en")} <span className="muted">of {newest.toLocaleString("en")}</span>
      </span>
      <Button isSmall aria-pressed={cursor === undefined} onClick={() => goTo(newest)}>
        {isRunLive ? "Live" : "End"}
      </Button>
      <ReplayBadge />
    </div>
  );
}

interface TimeSliderProps {
  shown: number;
  newest: number;
  /** Positions of failures between 0 and 1. */
  marks: number[];
  onMove: (seq: number) => void;
}

function TimeSlider({ shown, newest, marks, onMove }: TimeSliderProps) {
  const [draft, setDraft] = useState<number | null>(null);
  useEffect(() => {
    if (draft === null) return undefined;
    const timer = setTimeout(() => {
      onMove(draft);
      setDraft(null);
    }, settleMs);
    return () => clearTimeout(timer);
    // The latest `onMove` does the same as the first one.
  }, [draft]);
  const value = draft ?? shown;
  return (
    <div className="time-slider">
      <input
        type="range"
        min={1}
        max={Math.max(1, newest)}
        value={value}
        aria-label="Event of the run that is shown"
        aria-valuetext={`event ${value} of ${newest}`}
        onChange={(event) => setDraft(Number(event.target.value))}
      />
      <div className="time-marks" aria-hidden="true">
        {marks.map((place) => (
          <span key={place} className="time-mark" style={{ left: `${place * 100}%` }} />
        ))}
      </div>
    </div>
  );
}
