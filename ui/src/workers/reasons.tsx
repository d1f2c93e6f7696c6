// Why a command waits: the sentence of the server with a mark, and what to do.
import type { WaitingReason } from "../api/types";
import type { Mark } from "../lib/status";
import { MarkIcon } from "../parts/StatusMark";
import "./workers.css";

const marks: Record<WaitingReason["cause"], Mark> = {
  run_paused: "paused",
  run_stopping: "cancelled",
  owner_gone: "failed",
  no_worker_in_pool: "failed",
  no_worker_for_kinds: "failed",
  no_free_slot: "waiting",
  starting: "running",
};

export function Reason({ reason }: { reason: WaitingReason }) {
  return (
    <span className="reason">
      <MarkIcon mark={marks[reason.cause]} />
      <span>
        <CodeText text={reason.detail} />.{" "}
        {reason.remedy && (
          <span className="muted">
            <CodeText text={reason.remedy} />
          </span>
        )}
      </span>
    </span>
  );
}

/** A sentence whose names and commands, in backquotes, are shown as code. */
function CodeText({ text }: { text: string }) {
  const parts = (text.slice(0, 1).toUpperCase() + text.slice(1)).split("`");
  return parts.map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
}
