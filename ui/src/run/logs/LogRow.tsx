// One line of output: its number is a link, its time and task are shown where they change.
import { formatAddress } from "../runView";
import { formatClock } from "../../lib/time";
import { AnsiText } from "./AnsiText";
import type { LogLine } from "../../api/types";
import type { NumberedLine } from "./logLines";

interface LogRowProps {
  ref: React.Ref<HTMLDivElement>;
  index: number;
  start: number;
  line: NumberedLine;
  previous: NumberedLine | undefined;
  isWrapped: boolean;
  isTarget: boolean;
  onPick: (number: number) => void;
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
        aria-label={`Link to line ${line.number}`}
        onClick={() => onPick(line.number)}
      >
        {line.number}
      </button>
      <span className="log-time muted" title={line.time}>
        {formatClock(new Date(line.time))}
      </span>
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

function addressOf({ step, task, iteration, attempt }: NumberedLine): string {
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
