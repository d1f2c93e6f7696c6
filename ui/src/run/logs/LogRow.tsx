// One line of output: its time is a link to it, its task is shown where it changes.
import { formatAddress } from "../runView";
import { formatClock } from "../../lib/time";
import { AnsiText } from "./AnsiText";
import type { LogLine } from "../../api/types";

interface LogRowProps {
  ref: React.Ref<HTMLDivElement>;
  index: number;
  start: number;
  line: LogLine;
  previous: LogLine | undefined;
  isWrapped: boolean;
  isTarget: boolean;
  onPick: (position: number) => void;
}

export function LogRow({ ref, index, start, line, previous, isWrapped, isTarget, onPick }: LogRowProps) {
  const source = addressOf(line);
  const isSame = previous !== undefined && addressOf(previous) === source;
  return (
    <div
      ref={ref}
      data-index={index}
      className={`log-row ${isWrapped ? "log-wrapped" : ""}`}
      data-target={isTarget || undefined}
      style={{ transform: `translateY(${start}px)` }}
    >
      <button
        type="button"
        className="log-number"
        aria-label={`Link to the line of ${formatClock(new Date(line.time))}`}
        title={line.time}
        onClick={() => onPick(line.position)}
      >
        {formatClock(new Date(line.time))}
      </button>
      <span className="log-source muted truncate" title={source}>
        {isSame ? "" : source}
      </span>
      <span className={`log-text ${styleOf(line)}`}>
        {line.level === "error" && <span className="visually-hidden">error: </span>}
        <AnsiText text={line.text} />
      </span>
    </div>
  );
}

function addressOf({ step, task, iteration, attempt }: LogLine): string {
  return formatAddress({
    step,
    task,
    ...(iteration === undefined ? {} : { iteration }),
    ...(attempt > 1 ? { attempt } : {}),
  });
}

/** Class names for where a line was written and how serious it is. */
export function styleOf({ stream, level }: Pick<LogLine, "stream" | "level">): string {
  return `log-${stream} log-${level}`;
}
