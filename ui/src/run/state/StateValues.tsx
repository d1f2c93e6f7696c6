// Values of the state by key, each with a link to the event that wrote it.
import type { StateEntry, StateWriter } from "../../api/types";
import { formatBytes } from "../../lib/json";
import { JsonTree } from "../../parts/JsonTree";
import { useRun } from "../context";
import { formatAddress } from "../runView";

interface StateValuesProps {
  entries: StateEntry[];
  label: string;
  emptyText: string;
}

export function StateValues({ entries, label, emptyText }: StateValuesProps) {
  if (entries.length === 0) return <p className="muted">{emptyText}</p>;
  return (
    <dl className="state-values" aria-label={label}>
      {entries.map((entry) => (
        <div key={entry.key} className="state-entry" data-key={entry.key}>
          <dt className="mono">{entry.key}</dt>
          <dd className="state-value">
            <EntryValue entry={entry} />
          </dd>
          <dd className="state-writer">
            <WriterLink writer={entry.writer} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function EntryValue({ entry }: { entry: StateEntry }) {
  if (!entry.is_preview) return <JsonTree value={entry.value} depth={1} />;
  return (
    <>
      <p className="muted">The value has {formatBytes(entry.bytes)}. It starts with:</p>
      <pre className="block" tabIndex={0}>
        {String(entry.value)}
      </pre>
    </>
  );
}

export function WriterLink({ writer }: { writer: StateWriter | null }) {
  const { setView } = useRun();
  if (!writer) return <span className="muted">unknown event</span>;
  const { seq, step, task, iteration } = writer;
  const place = step
    ? formatAddress({
        step,
        ...(task === null ? {} : { task }),
        ...(iteration === null ? {} : { iteration }),
      })
    : writer.type;
  const open = () =>
    setView((view) => {
      const next = { ...view, tab: "events" as const, seq };
      delete next.type;
      delete next.from;
      return next;
    });
  return (
    <button type="button" className="link" title={writer.type} onClick={open}>
      event {seq} <span className="mono">{place}</span>
    </button>
  );
}
