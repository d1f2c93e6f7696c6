// The event log of a run in the browser: a bounded window of it. Numbers have no gaps, so any part can be loaded alone;
// the parts that were used least recently are dropped.
import { readEventPage } from "../api/queries";
import type { LogEvent } from "../api/types";

export const pageSize = 200;
const pagesMax = 50;

type ReadPage = typeof readEventPage;
type Frame = (callback: () => void) => unknown;

export class EventLog {
  private pages = new Map<number, (LogEvent | undefined)[]>();
  private loading = new Set<number>();
  private pending: LogEvent[] = [];
  private listeners = new Set<() => void>();
  private isScheduled = false;
  private version = 0;
  private failure: unknown = null;

  constructor(
    private readonly id: string,
    private lastSeq: number,
    private readonly readPage: ReadPage = readEventPage,
    private readonly frame: Frame = (callback) => requestAnimationFrame(callback),
  ) {}

  /** Number of events in the log. */
  get length(): number {
    return this.lastSeq;
  }

  get error(): unknown {
    return this.failure;
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getVersion = () => this.version;

  /** Adds events that arrived; they become visible with the next frame. */
  add(events: LogEvent[]) {
    this.pending.push(...events);
    if (this.isScheduled) return;
    this.isScheduled = true;
    this.frame(() => {
      this.isScheduled = false;
      for (const event of this.pending) this.place(event);
      this.pending = [];
      this.publish();
    });
  }

  /** Says how long the log is, if that is known from elsewhere. */
  extend(seq: number) {
    if (seq <= this.lastSeq) return;
    this.lastSeq = seq;
    this.publish();
  }

  get(seq: number): LogEvent | undefined {
    return this.pages.get(pageOf(seq))?.[(seq - 1) % pageSize];
  }

  /** Loads what is missing of the events from one number to another. */
  load(from: number, to: number) {
    for (let page = pageOf(Math.max(1, from)); page <= pageOf(Math.min(to, this.lastSeq)); page += 1) {
      this.touch(page);
      if (this.isIncomplete(page) && !this.loading.has(page)) void this.loadPage(page);
    }
  }

  /** Forgets the last failure, so that the next view loads again. */
  retry() {
    this.failure = null;
    this.publish();
  }

  private async loadPage(page: number) {
    if (this.failure !== null) return;
    this.loading.add(page);
    try {
      const { events } = await this.readPage(this.id, { after_seq: page * pageSize, limit: pageSize });
      for (const event of events) this.place(event);
    } catch (error) {
      this.failure = error;
    } finally {
      this.loading.delete(page);
      this.publish();
    }
  }

  private place(event: LogEvent) {
    const page = pageOf(event.seq);
    const events = this.pages.get(page) ?? [];
    events[(event.seq - 1) % pageSize] = event;
    this.pages.delete(page);
    this.pages.set(page, events);
    this.lastSeq = Math.max(this.lastSeq, event.seq);
    const oldest = this.pages.keys().next().value;
    if (this.pages.size > pagesMax && oldest !== undefined) this.pages.delete(oldest);
  }

  private touch(page: number) {
    const events = this.pages.get(page);
    if (!events) return;
    this.pages.delete(page);
    this.pages.set(page, events);
  }

  private isIncomplete(page: number): boolean {
    const events = this.pages.get(page) ?? [];
    const count = Math.min(pageSize, this.lastSeq - page * pageSize);
    for (let index = 0; index < count; index += 1) if (!events[index]) return true;
    return false;
  }

  private publish() {
    this.version += 1;
    this.listeners.forEach((listener) => listener());
  }
}

function pageOf(seq: number): number {
  return Math.floor((seq - 1) / pageSize);
}
