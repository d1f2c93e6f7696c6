// The time axis: a run from 0 to 1, with idle gaps shortened. Times are microseconds since the start of the run.

export interface Interval {
  from: number;
  to: number;
}

interface Piece extends Interval {
  /** Where the piece starts and ends on the axis. */
  start: number;
  end: number;
  isGap: boolean;
}

export interface TimeScale {
  pieces: Piece[];
}

/** An idle gap is shortened if it is longer than this share of the time in which something ran. */
const gapShare = 0.15;
/** The length of a shortened gap, as a share of that time. */
const breakShare = 0.05;
const gapsMax = 50;

/** The axis from the start of a run to its end. */
export function createScale(activity: Interval[], end: number): TimeScale {
  const gaps = findGaps(activity, end);
  const idle = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const busy = Math.max(1, end - idle);
  const length = busy + gaps.length * busy * breakShare;
  const pieces: Piece[] = [];
  let position = 0;
  const add = (from: number, to: number, isGap: boolean) => {
    const start = position;
    position += (isGap ? busy * breakShare : Math.max(to - from, pieces.length === 0 && to === from ? 1 : 0)) / length;
    pieces.push({ from, to, start, end: position, isGap });
  };
  let time = 0;
  for (const gap of gaps) {
    if (gap.from > time) add(time, gap.from, false);
    add(gap.from, gap.to, true);
    time = gap.to;
  }
  if (time < end || pieces.length === 0) add(time, Math.max(end, time + 1), false);
  return { pieces };
}

/** The long times in which nothing was queued or ran. */
function findGaps(activity: Interval[], end: number): Interval[] {
  const sorted = [...activity].sort((one, other) => one.from - other.from);
  const gaps: Interval[] = [];
  let until = 0;
  for (const { from, to } of [...sorted, { from: end, to: end }]) {
    if (from > until) gaps.push({ from: until, to: from });
    until = Math.max(until, to);
  }
  const idle = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const least = Math.max(1, end - idle) * gapShare;
  const long = gaps.filter((gap) => gap.to - gap.from > least);
  const longest = [...long].sort((one, other) => other.to - other.from - (one.to - one.from)).slice(0, gapsMax);
  return long.filter((gap) => longest.includes(gap));
}

/** Where a time is on the axis. */
export function toPosition(scale: TimeScale, time: number): number {
  const piece = scale.pieces.find((candidate) => time <= candidate.to) ?? scale.pieces.at(-1);
  if (!piece) return 0;
  const share = piece.to > piece.from ? (time - piece.from) / (piece.to - piece.from) : 0;
  return piece.start + Math.max(0, Math.min(1, share)) * (piece.end - piece.start);
}

/** The time at a position of the axis. */
export function toTime(scale: TimeScale, position: number): number {
  const piece = scale.pieces.find((candidate) => position <= candidate.end) ?? scale.pieces.at(-1);
  if (!piece) return 0;
  const share = piece.end > piece.start ? (position - piece.start) / (piece.end - piece.start) : 0;
  return Math.round(piece.from + Math.max(0, Math.min(1, share)) * (piece.to - piece.from));
}

/** The part of the axis in view, as positions; at least a millionth of it. */
export interface Zoom {
  start: number;
  end: number;
}

export const wholeRun: Zoom = { start: 0, end: 1 };
const zoomLeast = 1e-6;

/** Zooms by a factor around a position of the view, from 0 to 1. */
export function zoomBy(zoom: Zoom, factor: number, around = 0.5): Zoom {
  const length = Math.max(zoomLeast, Math.min(1, (zoom.end - zoom.start) * factor));
  const center = zoom.start + around * (zoom.end - zoom.start);
  return clampZoom({ start: center - around * length, end: center + (1 - around) * length });
}

/** Moves the view by a share of its length. */
export function panBy(zoom: Zoom, share: number): Zoom {
  const distance = (zoom.end - zoom.start) * share;
  return clampZoom({ start: zoom.start + distance, end: zoom.end + distance });
}

function clampZoom({ start, end }: Zoom): Zoom {
  const length = Math.min(1, end - start);
  const first = Math.max(0, Math.min(1 - length, start));
  return { start: first, end: first + length };
}

/** Reads `from-to` in microseconds. */
export function parseZoom(scale: TimeScale, text: string | undefined): Zoom {
  const match = /^(\d{1,16})-(\d{1,16})$/.exec(text ?? "");
  if (!match) return wholeRun;
  const [start, end] = [toPosition(scale, Number(match[1])), toPosition(scale, Number(match[2]))];
  return end > start ? { start, end } : wholeRun;
}

/** The zoom as text; nothing for the whole run. */
export function formatZoom(scale: TimeScale, zoom: Zoom): string | undefined {
  if (zoom.start <= 0 && zoom.end >= 1) return undefined;
  const from = toTime(scale, zoom.start);
  return `${from}-${Math.max(from + 1, toTime(scale, zoom.end))}`;
}

/** Positions of the view, from 0 to 1, that a shortened gap takes. */
export function gapsInView(scale: TimeScale, zoom: Zoom): (Interval & Zoom)[] {
  const length = zoom.end - zoom.start;
  const gaps = scale.pieces.filter((piece) => piece.isGap && piece.end > zoom.start && piece.start < zoom.end);
  return gaps.map(({ from, to, start, end }) => ({
    from,
    to,
    start: (start - zoom.start) / length,
    end: (end - zoom.start) / length,
  }));
}

/** Labels of ticks need this much of the view before a gap. */
const labelShare = 0.05;

export interface Tick {
  time: number;
  /** Where the tick is in the view, from 0 to 1. */
  position: number;
}

/** Round times in view, about as many as wanted. */
export function findTicks(scale: TimeScale, zoom: Zoom, wanted: number): Tick[] {
  const length = zoom.end - zoom.start;
  const ticks: Tick[] = [];
  const visible = scale.pieces.filter((piece) => !piece.isGap && piece.end > zoom.start && piece.start < zoom.end);
  for (const piece of visible) {
    const hasGapBehind = scale.pieces.some((gap) => gap.isGap && gap.start === piece.end);
    const limit = hasGapBehind ? (piece.end - zoom.start) / length - labelShare : 1;
    const from = toTime(scale, Math.max(piece.start, zoom.start));
    const to = toTime(scale, Math.min(piece.end, zoom.end));
    const perView = ((piece.to - piece.from) / Math.max(1e-12, piece.end - piece.start)) * length;
    const step = roundStep(perView / Math.max(1, wanted));
    for (let time = Math.ceil(from / step) * step; time <= to && ticks.length < 4 * wanted; time += step) {
      const position = (toPosition(scale, time) - zoom.start) / length;
      if (position <= limit) ticks.push({ time, position });
    }
  }
  return ticks;
}

const roundSteps = [1, 2, 5];

function roundStep(least: number): number {
  // Above a minute, round times are multiples of 60.
  for (const seconds of [60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400]) {
    if (least > 30_000_000 && seconds * 1_000_000 >= least) return seconds * 1_000_000;
  }
  for (let power = 1; ; power *= 10) {
    const step = roundSteps.map((factor) => factor * power).find((candidate) => candidate >= least);
    if (step !== undefined) return step;
  }
}
