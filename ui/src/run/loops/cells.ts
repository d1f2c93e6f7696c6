// The cells of a loop as the server sends them, in words: what a cell covers, and what is in it.
import type { IterationStatus, LoopCells } from "../../api/types";
import { lookOf } from "../../lib/status";
import { formatMicroseconds } from "../../lib/time";

export type CellColumn = "status" | "duration" | "attempts";

/** Statuses from the best to the worst, with their letters in `statuses`. */
const letters: Record<string, IterationStatus> = {
  s: "success",
  w: "waiting",
  r: "running",
  t: "retrying",
  c: "cancelled",
  e: "error",
};
export const iterationStatuses = Object.values(letters);

/** Iterations from the first to the last, both included. */
export interface IterationRange {
  first: number;
  last: number;
}

export function statusOfCell(cells: LoopCells, cell: number): IterationStatus {
  return letters[cells.statuses[cell] ?? ""] ?? "waiting";
}

/** The iterations of a cell. */
export function iterationsOfCell(cells: LoopCells, cell: number): IterationRange {
  const first = cells.from + cell * cells.cell_size;
  return { first, last: Math.min(first + cells.cell_size, cells.to) - 1 };
}

/** The cell of an iteration, if it is in view. */
export function cellOfIteration(cells: LoopCells, iteration: number): number | null {
  if (iteration < cells.from || iteration >= cells.to) return null;
  return Math.floor((iteration - cells.from) / cells.cell_size);
}

/** What a cell shows, in words. */
export function describeCell(cells: LoopCells, cell: number): string {
  const { first, last } = iterationsOfCell(cells, cell);
  const parts =
    first === last
      ? [`iteration ${formatCount(first)}`, lookOf(statusOfCell(cells, cell)).word]
      : [`iterations ${formatCount(first)} to ${formatCount(last)}`, ...describeCounts(cells, cell)];
  const duration = cells.durations_us?.[cell];
  const attempts = cells.attempts?.[cell];
  if (duration != null) parts.push(`${first === last ? "took" : "longest"} ${formatMicroseconds(duration)}`);
  if (attempts != null) parts.push(`${attempts} ${attempts === 1 ? "attempt" : "attempts"}`);
  if (cells.durations_us && duration == null) parts.push("not measured");
  return parts.join(", ");
}

function describeCounts(cells: LoopCells, cell: number): string[] {
  const counts = iterationStatuses.map((status) => ({ status, count: cells.counts[status][cell] ?? 0 }));
  return counts
    .filter(({ count }) => count > 0)
    .reverse()
    .map(({ status, count }) => `${formatCount(count)} ${lookOf(status).word}`);
}

/** How strong the color of a cell is for its value, from 0 to 4; -1 for a cell without one. */
export function levelOf(value: number | null | undefined, bounds: number[]): number {
  if (value == null) return -1;
  const level = bounds.findIndex((bound) => value <= bound);
  return level < 0 ? bounds.length : level;
}

/** The four bounds between five levels: by ratio for durations, by number for attempts. */
export function levelBounds(cells: LoopCells, by: CellColumn): number[] {
  if (by === "attempts") return [1, 2, 3, 5];
  let least = Infinity;
  let most = 1;
  for (const duration of cells.durations_us ?? []) {
    if (duration === null) continue;
    least = Math.min(least, Math.max(1, duration));
    most = Math.max(most, duration);
  }
  const ratio = Math.max(1.0001, most / (least === Infinity ? 1 : least)) ** (1 / 5);
  return [1, 2, 3, 4].map((power) => Math.round((least === Infinity ? 1 : least) * ratio ** power));
}

/** Iterations as text: `3,7-9`. */
export function formatRanges(ranges: IterationRange[]): string {
  return ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

/** Reads ranges written by `formatRanges`; unreadable parts are left out. */
export function parseRanges(text: string | undefined): IterationRange[] {
  const parts = (text ?? "").split(",").map((part) => /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part));
  return parts
    .flatMap((match) => (match ? [{ first: Number(match[1]), last: Number(match[2] ?? match[1]) }] : []))
    .filter(({ first, last }) => first <= last);
}

/** Cells as ranges of iterations; adjacent cells are joined. */
export function joinCells(cells: LoopCells, picked: number[]): IterationRange[] {
  const ranges: IterationRange[] = [];
  for (const cell of [...picked].sort((one, other) => one - other)) {
    const { first, last } = iterationsOfCell(cells, cell);
    const previous = ranges.at(-1);
    if (previous && first <= previous.last + 1) previous.last = Math.max(previous.last, last);
    else ranges.push({ first, last });
  }
  return ranges;
}

export function countIterations(ranges: IterationRange[]): number {
  return ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
}

export function formatCount(count: number): string {
  return count.toLocaleString("en");
}
