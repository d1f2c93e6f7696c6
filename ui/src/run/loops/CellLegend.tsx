// What the colors of cells mean, in words and with the number of iterations.
import type { LoopCells } from "../../api/types";
import { lookOf } from "../../lib/status";
import { formatMicroseconds } from "../../lib/time";
import { MarkIcon } from "../../parts/StatusMark";
import { formatCount, iterationStatuses, levelBounds, type CellColumn } from "./cells";

export function CellLegend({ cells, by }: { cells: LoopCells; by: CellColumn }) {
  if (by === "status") {
    const present = [...iterationStatuses].reverse().filter((status) => cells.totals[status] > 0);
    return (
      <ul className="cell-legend" aria-label="Iterations by status">
        {present.map((status) => (
          <li key={status} data-status={status}>
            <span className={`swatch fill-${lookOf(status).mark}`} aria-hidden="true" />
            <MarkIcon mark={lookOf(status).mark} />
            <strong>{formatCount(cells.totals[status])}</strong> {lookOf(status).word}
          </li>
        ))}
      </ul>
    );
  }
  const bounds = levelBounds(cells, by);
  return (
    <ul className="cell-legend" aria-label={by === "duration" ? "Durations" : "Attempts"}>
      {[0, 1, 2, 3, 4].map((level) => (
        <li key={level}>
          <span className={`swatch level-${level}`} aria-hidden="true" />
          {nameLevel(bounds, level, by)}
        </li>
      ))}
      <li className="muted">
        <span className="swatch level-none" aria-hidden="true" />
        {cells.is_sampled ? "not measured; a cell shows the most of a sample of 64" : "not ended"}
      </li>
    </ul>
  );
}

/** The values of a level: `up to 2ms`, `3`, `over 5`. */
export function nameLevel(bounds: number[], level: number, by: CellColumn): string {
  const show = (value: number) => (by === "duration" ? formatMicroseconds(roundDigits(value)) : String(value));
  const bound = bounds[level];
  if (bound === undefined) return `over ${show(bounds.at(-1) ?? 0)}`;
  const before = bounds[level - 1];
  if (by === "attempts") {
    const isSingle = before === undefined || bound - before === 1;
    return isSingle ? `${bound} ${bound === 1 ? "attempt" : "attempts"}` : `${before + 1} to ${bound}`;
  }
  return `up to ${show(bound)}`;
}

function roundDigits(value: number): number {
  return Number(value.toPrecision(2));
}
