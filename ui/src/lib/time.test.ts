import { describe, expect, it } from "vitest";
import {
  formatAge,
  formatDuration,
  formatMicroseconds,
  formatRemaining,
  formatUtc,
  millisecondsBetween,
  readMicroseconds,
  runDuration,
} from "./time";

describe("durations", () => {
  it.each([
    [0.25, "250µs"],
    [44, "44ms"],
    [1250, "1.2s"],
    [9999, "9.9s"],
    [72_000, "1m 12s"],
    [60_000, "1m"],
    [3 * 3_600_000 + 5 * 60_000, "3h 5m"],
    [49 * 3_600_000, "2d 1h"],
    [-5, "0ms"],
  ])("%d ms is %s", (ms, text) => expect(formatDuration(ms)).toBe(text));

  it.each([
    [812, "812µs"],
    [1234, "1.234ms"],
    [2_000_001, "2.000001s"],
    [62_500_000, "1m 2.5s"],
    [3_660_000_001, "1h 1m 0.000001s"],
  ])("%d µs are %s with all digits", (us, text) => expect(formatMicroseconds(us)).toBe(text));

  it("are measured from times with microseconds", () => {
    const [from, to] = ["2026-11-19T19:00:00.000001Z", "2026-11-19T19:00:00.123456Z"];
    expect(readMicroseconds(to) - readMicroseconds(from)).toBe(123_455);
  });

  it("counts a run that has not ended until now", () => {
    const run = { started_at: "2026-11-19T19:00:00Z" };
    expect(runDuration(run, new Date("2026-11-19T19:00:05Z"))).toBe(5000);
  });

  it("keeps microseconds", () => {
    expect(millisecondsBetween("2026-11-19T19:22:04.236560Z", "2026-11-19T19:22:04.237000Z")).toBeCloseTo(0.44, 3);
  });
});

describe("deadlines", () => {
  const now = new Date("2026-11-19T19:00:00Z");
  it.each([
    [3_599_500, "59m 59s left"],
    [400, "1.0s left"],
    [0, "time is up"],
    [-5000, "time is up"],
  ])("%d ms before it is %s", (ms, text) => expect(formatRemaining(new Date(now.getTime() + ms), now)).toBe(text));
});

describe("ages", () => {
  const now = new Date("2026-11-19T19:00:00Z");
  it.each([
    [500, "now"],
    [12_000, "12s ago"],
    [3 * 60_000, "3m ago"],
    [5 * 3_600_000, "5h ago"],
    [2 * 86_400_000, "2d ago"],
  ])("%d ms ago is %s", (ms, text) => expect(formatAge(new Date(now.getTime() - ms), now)).toBe(text));

  it("writes UTC in full", () => {
    expect(formatUtc("2026-11-19T19:22:04.236560Z")).toBe("2026-11-19 19:22:04 UTC");
    expect(formatUtc("soon")).toBe("soon");
  });
});
