// Times and durations as people read them.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** A duration in milliseconds in two units at most: `44ms`, `1.2s`, `1m 12s`, `3h 5m`, `2d 4h`. */
export function formatDuration(ms: number): string {
  if (ms <= 0) return "0ms";
  if (ms < 1) return `${Math.round(ms * 1000)}µs`;
  if (ms < second) return `${Math.round(ms)}ms`;
  if (ms < 10 * second) return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`;
  if (ms < minute) return `${Math.floor(ms / second)}s`;
  if (ms < hour) return joinUnits(ms, minute, "m", second, "s");
  if (ms < day) return joinUnits(ms, hour, "h", minute, "m");
  return joinUnits(ms, day, "d", hour, "h");
}

/** A duration with all digits that were measured: `812µs`, `1.234ms`, `2.000001s`, `1m 2.5s`. */
export function formatMicroseconds(us: number): string {
  if (us < 1000) return `${us}µs`;
  if (us < 1_000_000) return `${us / 1000}ms`;
  if (us < 60_000_000) return `${us / 1_000_000}s`;
  const minutes = Math.floor(us / 60_000_000);
  const seconds = (us % 60_000_000) / 1_000_000;
  const hours = Math.floor(minutes / 60);
  return hours > 0 ? `${hours}h ${minutes % 60}m ${seconds}s` : `${minutes}m ${seconds}s`;
}

/** A time as the server writes it, in microseconds since 1970. */
export function readMicroseconds(text: string): number {
  return Math.round(readMilliseconds(text) * 1000);
}

function joinUnits(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)}${largeName}${rest ? ` ${rest}${smallName}` : ""}`;
}

/** How long ago a time is: `now`, `12s ago`, `3h ago`, then the date. */
export function formatAge(at: Date, now: Date): string {
  const ms = now.getTime() - at.getTime();
  if (ms < 2 * second) return "now";
  if (ms < minute) return `${Math.floor(ms / second)}s ago`;
  if (ms < hour) return `${Math.floor(ms / minute)}m ago`;
  if (ms < day) return `${Math.floor(ms / hour)}h ago`;
  if (ms < 14 * day) return `${Math.floor(ms / day)}d ago`;
  return formatDate(at);
}

/** How much time is left: `59m 3s left`, or how long ago the time was. */
export function formatRemaining(at: Date, now: Date): string {
  const ms = at.getTime() - now.getTime();
  if (ms <= 0) return "time is up";
  return `${formatDuration(Math.max(second, Math.floor(ms / second) * second))} left`;
}

/** `2026-11-19` in the zone of the reader. */
export function formatDate(at: Date): string {
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

/** `19:22:04.236` in the zone of the reader. */
export function formatClock(at: Date): string {
  const ms = String(at.getMilliseconds()).padStart(3, "0");
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${ms}`;
}

/** `2026-11-19 19:22:04 UTC` for a time as the server writes it. */
export function formatUtc(text: string): string {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text;
  return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Milliseconds from one time to another, with the microseconds that the server writes. */
export function millisecondsBetween(from: string, to: string): number {
  return readMilliseconds(to) - readMilliseconds(from);
}

/** The duration of a run: until it ended, or until now. */
export function runDuration(run: { started_at: string; finished_at?: string | null }, now: Date): number {
  const end = run.finished_at ? Date.parse(run.finished_at) : now.getTime();
  return Math.max(0, end - Date.parse(run.started_at));
}

function readMilliseconds(text: string): number {
  const micros = /\.\d{3}(\d{3})/.exec(text)?.[1];
  return Date.parse(text) + (micros ? Number(micros) / 1000 : 0);
}

function pad(number: number): string {
  return String(number).padStart(2, "0");
}
