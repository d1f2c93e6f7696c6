// A run while it is open: its event log, kept up to date by the stream, and reads that are repeated when it changes.
import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { apiUrl } from "../api/client";
import { followStream } from "../api/sse";
import type { LogEvent, Run } from "../api/types";
import { isLive } from "../lib/status";
import { EventLog } from "./eventLog";

const refreshMs = 1000;
const liveReads = new Set<unknown>([
  "detail",
  "graph",
  "outline",
  "failures",
  "cells",
  "durations",
  "timeline",
  "iteration",
]);

export function useEventLog(run: Run): EventLog {
  const { execution_id: id, seq } = run;
  // A log belongs to a run; its length at first is what the run said.
  const log = useMemo(() => new EventLog(id, seq), [id]);
  useEffect(() => log.extend(seq), [log, seq]);
  useStream(id, isLive(run.status), log);
  return log;
}

/** Draws again when the log has changed. */
export function useLogVersion(log: EventLog): number {
  return useSyncExternalStore(log.subscribe, log.getVersion);
}

function useStream(id: string, isOpen: boolean, log: EventLog) {
  const client = useQueryClient();
  useEffect(() => {
    if (!isOpen) return undefined;
    const refresh = createRefresh(client, id);
    const stop = followStream({
      url: apiUrl(`/api/executions/${id}/stream`),
      lastEventId: String(log.length),
      onMessages: (messages) => {
        const events = messages.filter((message) => message.event !== "end");
        log.add(events.map((message) => JSON.parse(message.data) as LogEvent));
        refresh.schedule();
        if (events.length < messages.length) void client.invalidateQueries({ queryKey: ["run", id] });
      },
    });
    return () => {
      stop();
      refresh.cancel();
    };
  }, [client, id, isOpen, log]);
}

/** Repeats the reads of a run, at most once a second. */
function createRefresh(client: QueryClient, id: string) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const refresh = () => {
    timer = undefined;
    void client.invalidateQueries({ queryKey: ["run", id], predicate: ({ queryKey }) => liveReads.has(queryKey[2]) });
  };
  return {
    schedule: () => {
      timer ??= setTimeout(refresh, refreshMs);
    },
    cancel: () => clearTimeout(timer),
  };
}
