// The lines of a run's output that match a filter. The last lines are read first, earlier and later ones when they are
// wanted, and at most so many are in memory.
import { useEffect, useState, useSyncExternalStore } from "react";
import { readLogs } from "../../api/queries";
import type { LogLine, LogParams } from "../../api/types";

export type LogFilter = Omit<LogParams, "after" | "before" | "tail" | "limit">;
export const linesMax = 50_000;
const pageLines = 1000;

export interface LogState {
  lines: LogLine[];
  /** Whether there may be lines before and after these. */
  hasEarlier: boolean;
  hasLater: boolean;
  isReading: boolean;
  error: unknown;
}

const emptyState: LogState = { lines: [], hasEarlier: false, hasLater: false, isReading: false, error: null };

/** Reads the lines that match a filter, from the end or around a position, and on in both directions. */
export class LogReader {
  private state: LogState = { ...emptyState, isReading: true };
  private after = 0;
  private isStopped = false;
  private isBusy = false;
  private listeners = new Set<() => void>();

  constructor(
    private readonly id: string,
    private readonly filter: LogFilter,
    private readonly read: typeof readLogs = readLogs,
    private readonly max = linesMax,
  ) {}

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getState = () => this.state;

  /** Starts with the last lines, or with those around a position. */
  open(position?: number): Promise<void> {
    return this.use(async () => {
      this.state = { ...emptyState, isReading: true };
      const range = position === undefined ? { tail: pageLines } : { before: position + 1, limit: pageLines };
      const { lines, nextAfter, hasEarlier } = await this.read(this.id, { ...this.filter, ...range });
      this.after = nextAfter;
      this.set({ lines, hasEarlier, hasLater: position !== undefined });
      if (position !== undefined) await this.readPage();
    });
  }

  /** Reads what follows: one page, or everything that is there now. */
  readLater(isAll = false): Promise<void> {
    return this.use(async () => {
      do await this.readPage();
      while (isAll && this.state.hasLater && !this.isStopped);
    });
  }

  readEarlier(): Promise<void> {
    return this.use(async () => {
      const first = this.state.lines[0];
      if (!first) return;
      const query = { ...this.filter, before: first.position, limit: pageLines };
      const { lines, hasEarlier } = await this.read(this.id, query);
      const all = [...lines, ...this.state.lines];
      const kept = all.slice(0, this.max);
      if (kept.length < all.length) this.after = kept.at(-1)?.position ?? 0;
      this.set({ lines: kept, hasEarlier, hasLater: this.state.hasLater || kept.length < all.length });
    });
  }

  stop() {
    this.isStopped = true;
  }

  private async readPage() {
    const query = { ...this.filter, after: this.after, limit: pageLines };
    const { lines, nextAfter } = await this.read(this.id, query);
    this.after = nextAfter;
    const all = [...this.state.lines, ...lines];
    const kept = all.slice(Math.max(0, all.length - this.max));
    const hasEarlier = this.state.hasEarlier || kept.length < all.length;
    const hasLater = lines.length === pageLines;
    if (lines.length > 0 || hasLater !== this.state.hasLater) this.set({ lines: kept, hasEarlier, hasLater });
  }

  /** One read at a time; the others are left out. */
  private async use(work: () => Promise<void>) {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      await work();
      this.set({ isReading: false, error: null });
    } catch (error) {
      this.set({ isReading: false, error });
    } finally {
      this.isBusy = false;
    }
  }

  private set(change: Partial<LogState>) {
    const isSame = Object.entries(change).every(([key, value]) => this.state[key as keyof LogState] === value);
    if (isSame) return;
    this.state = { ...this.state, ...change };
    if (!this.isStopped) this.listeners.forEach((listener) => listener());
  }
}

const readPauseMs = 1000;

interface LogReaderOptions {
  /** The position to start at; without it, the end. */
  position: number | undefined;
  /** Whether the run may print more. */
  isLive: boolean;
  isFollowed: boolean;
}

/** The lines of a run; reads on while it is live. `filter` is null until it is known. */
export function useLogReader(id: string, filter: LogFilter | null, options: LogReaderOptions) {
  const { position, isLive, isFollowed } = options;
  const key = filter && JSON.stringify(filter);
  const [reader, setReader] = useState(() => new LogReader(id, {}));
  const state = useSyncExternalStore(reader.subscribe, reader.getState);
  useEffect(() => {
    if (key === null) return undefined;
    const next = new LogReader(id, JSON.parse(key) as LogFilter);
    setReader(next);
    void next.open(position);
    return () => next.stop();
    // A position that changes later is opened below.
  }, [id, key]);
  useEffect(() => {
    const { lines, isReading } = reader.getState();
    if (position === undefined || isReading || lines.some((line) => line.position === position)) return;
    void reader.open(position);
  }, [reader, position]);
  useEffect(() => {
    const readOn = () => {
      const { isReading, hasLater } = reader.getState();
      if (!isReading && (isFollowed || !hasLater)) void reader.readLater(isFollowed);
    };
    // Lines can arrive shortly after the run has ended.
    if (!isLive) return readOn();
    const timer = setInterval(() => !document.hidden && readOn(), readPauseMs);
    return () => clearInterval(timer);
  }, [reader, isLive, isFollowed]);
  return { ...state, reader };
}
