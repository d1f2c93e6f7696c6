// One event: number, time since the one before, type, entity and payload on a line; all of it when it is open.
import type { JsonObject, LogEvent } from "../../api/types";
import { previewJson } from "../../lib/json";
import { lookOf } from "../../lib/status";
import { formatDuration, formatUtc, millisecondsBetween } from "../../lib/time";
import { CopyButton } from "../../parts/copy";
import { JsonTree } from "../../parts/JsonTree";
import { MarkIcon } from "../../parts/StatusMark";
import { useRun } from "../context";
import { formatAddress, type Selection } from "../runView";

interface EventRowProps {
  event: LogEvent;
  previous: LogEvent | undefined;
  isOpen: boolean;
  isTarget: boolean;
  onToggle: () => void;
}

export function EventRow({ event, previous, isOpen, isTarget, onToggle }: EventRowProps) {
  const selection = readEventSelection(event);
  const delta =
    previous && previous.seq === event.seq - 1 ? millisecondsBetween(previous.recorded_at, event.recorded_at) : null;
  return (
    <div data-target={isTarget || undefined} className="event">
      <button type="button" className="event-row" aria-expanded={isOpen} onClick={onToggle}>
        <span className="muted">{event.seq}</span>
        <span className="muted" title={formatUtc(event.timestamp)}>
          {delta === null || delta === 0 ? "" : `+${formatDuration(delta)}`}
        </span>
        <span className="event-type truncate">
          <MarkIcon mark={lookOf(event.status ?? "").mark} size={10} />
          {event.event_type}
        </span>
        <span className="truncate">{selection ? formatAddress(selection) : event.entity_type}</span>
        <span className="muted truncate event-payload">{previewJson(event.payload)}</span>
      </button>
      {isOpen && <EventDetail event={event} selection={selection} />}
    </div>
  );
}

function EventDetail({ event, selection }: { event: LogEvent; selection: Selection | null }) {
  const { select, setView } = useRun();
  return (
    <div className="event-detail">
      <p className="row">
        {selection && (
          <button type="button" className="link" onClick={() => select(selection)}>
            Show {formatAddress(selection)}
          </button>
        )}
        {event.cause_seq !== undefined && (
          <button
            type="button"
            className="link"
            onClick={() => setView((view) => ({ ...view, seq: event.cause_seq ?? 1 }))}
          >
            caused by event {event.cause_seq}
          </button>
        )}
        <CopyButton text={JSON.stringify(event, null, 2)} what={`event ${event.seq}`}>
          Copy JSON
        </CopyButton>
      </p>
      <JsonTree value={event as unknown as JsonObject} depth={3} />
    </div>
  );
}

function readEventSelection(event: LogEvent): Selection | null {
  const { step, task_label: task, iteration, attempt } = event;
  if (step === undefined) return null;
  return {
    step,
    ...(task === undefined ? {} : { task }),
    ...(iteration === undefined ? {} : { iteration }),
    ...(task === undefined || attempt === undefined ? {} : { attempt }),
  };
}
