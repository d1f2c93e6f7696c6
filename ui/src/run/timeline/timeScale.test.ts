// The time axis shortens idle gaps, and every time has one position.
import { describe, expect, it } from "vitest";
import {
  createScale,
  findTicks,
  formatZoom,
  panBy,
  parseZoom,
  toPosition,
  toTime,
  wholeRun,
  zoomBy,
} from "./timeScale";

const second = 1_000_000;

describe("the time axis", () => {
  const scale = createScale(
    [
      { from: 0, to: 10 * second },
      { from: 3610 * second, to: 3620 * second },
    ],
    3620 * second,
  );

  it("shortens a long gap and keeps the rest in proportion", () => {
    expect(scale.pieces.map((piece) => piece.isGap)).toEqual([false, true, false]);
    const widths = scale.pieces.map((piece) => piece.end - piece.start);
    expect(widths[0]).toBeCloseTo(widths[2] ?? 0);
    expect(widths[1]).toBeLessThan(0.06);
    expect(scale.pieces.at(-1)?.end).toBeCloseTo(1);
  });

  it("finds the time at each position", () => {
    for (const time of [0, 5 * second, 10 * second, 3615 * second, 3620 * second]) {
      expect(Math.abs(toTime(scale, toPosition(scale, time)) - time)).toBeLessThanOrEqual(1);
    }
  });

  it("keeps short gaps, and runs without any activity", () => {
    expect(createScale([{ from: 1, to: 9 }], 10).pieces).toHaveLength(1);
    expect(toPosition(createScale([], 0), 0)).toBe(0);
  });

  it("has round ticks in view, none in a gap or close before it", () => {
    const ticks = findTicks(scale, wholeRun, 6).map((tick) => tick.time / second);
    expect(ticks).toEqual([0, 5, 3610, 3615, 3620]);
  });
});

describe("zoom", () => {
  const scale = createScale([{ from: 0, to: 1000 }], 1000);

  it("stays within the run", () => {
    expect(zoomBy(wholeRun, 0.5)).toEqual({ start: 0.25, end: 0.75 });
    expect(zoomBy({ start: 0.25, end: 0.75 }, 10)).toEqual(wholeRun);
    expect(panBy({ start: 0.25, end: 0.75 }, 10)).toEqual({ start: 0.5, end: 1 });
  });

  it("is read as it is written", () => {
    expect(formatZoom(scale, wholeRun)).toBeUndefined();
    expect(formatZoom(scale, { start: 0.2, end: 0.4 })).toBe("200-400");
    expect(parseZoom(scale, "200-400")).toEqual({ start: 0.2, end: 0.4 });
    expect(parseZoom(scale, "400-200")).toEqual(wholeRun);
  });
});
