// The lines of a run's output that match a filter: read in pages, at most so many in memory.
import { useEffect, useState, useSyncExternalStore } from "react";
import type { LogParams } from "../../api/types";
import { readLogs } from "../../api/queries";
import type { LogLine } from "../../api/types";

export type LogFilter = Omit<LogParams, "after" | "limit">;
export const linesMax = 50_000;
const pageLines = 2000;

export interface NumberedLine extends LogLine {
  /** Position among the lines that match, from 1. */
  number: number;
}

export interface LogState {
  lines: NumberedLine[];
  /** How many lines were dropped from the start to stay within the limit. */
  dropped: number;
  isReading: boolean;
  error: unknown;
}

/** The lines with others added at the end, without the oldest beyond the limit. */
export function appendLines(lines: NumberedLine[], added: LogLine[], max = linesMax): NumberedLine[] {
  let number = lines.at(-1)?.number ?? 0;
  const all = [...lines, ...added.map((line) => ({ ...line, number: (number += 1) }))];
  return all.length > max ? all.slice(all.length - max) : all;
}

/** Reads the lines that match a filter; each read continues where the last one ended. */
export class LogReader {
  private state: LogState = { lines: [], dropped: 0, isReading: false, error: null };
  private after = 0;
  private isStopped = false;
  private listeners = new Set<() => void>();

  constructor(
    private readonly id: string,
    private readonly filter: LogFilter,
    private readonly read: typeof readLogs = readLogs,
  ) {}

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getState = () => this.state;

  /** Reads everything that is there now. */
  async readOn(): Promise<void> {
    if (this.state.isReading) return;
    this.set({ isReading: true, error: null });
    try {
      for (let isLast = false; !isLast && !this.isStopped;) {
        const query = { ...this.filter, after: this.after, limit: pageLines };
        const { lines, nextAfter } = await this.read(this.id, query);
        isLast = nextAfter === this.after;
        this.after = nextAfter;
        if (lines.length > 0) {
          const all = appendLines(this.state.lines, lines);
          this.set({ lines: all, dropped: (all[0]?.number ?? 1) - 1 });
        }
      }
      this.set({ isReading: false });
    } catch (error) {
      this.set({ isReading: false, error });
    }
  }

  stop() {
    this.isStopped = true;
  }

  private set(change: Partial<LogState>) {
    this.state = { ...this.state, ...change };
    if (!this.isStopped) this.listeners.forEach((listener) => listener());
  }
}

const readPauseMs = 1000;

/** The lines of a run; reads on while it is live. */
export function useLogReader(id: string, filter: LogFilter, isRunLive: boolean) {
  const key = JSON.stringify(filter);
  const [reader, setReader] = useState(() => new LogReader(id, filter));
  const state = useSyncExternalStore(reader.subscribe, reader.getState);
  useEffect(() => {
    const next = new LogReader(id, JSON.parse(key) as LogFilter);
    setReader(next);
    void next.readOn();
    return () => next.stop();
  }, [id, key]);
  useEffect(() => {
    if (!isRunLive) {
      void reader.readOn();
      return undefined;
    }
    const timer = setInterval(() => !document.hidden && void reader.readOn(), readPauseMs);
    return () => clearInterval(timer);
  }, [reader, isRunLive]);
  return { ...state, retry: () => void reader.readOn() };
}
