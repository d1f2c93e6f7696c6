// Whether the state that is replayed from the log equals the state with which the server works. The server compares both.
import { useQuery } from "@tanstack/react-query";
import { stateCheckQuery } from "../../api/queries";
import type { StateCheck } from "../../api/types";
import { Tip } from "../../parts/Tip";
import { useRun } from "../context";
import { useCursor } from "./cursor";

const sources: Record<StateCheck["source"], string> = {
  memory: "the state in the memory of the server",
  snapshot: "the latest snapshot and the events after it",
  summary: "the stored status and version of the run",
};

/** The check costs a replay, so it is made once, when a person travels in time or looks at the state. */
export function ReplayBadge() {
  const { detail, view } = useRun();
  const isWanted = useCursor() !== undefined || view.tab === "state";
  const { data, error, refetch, isFetching } = useQuery({ ...stateCheckQuery(detail.execution_id), enabled: isWanted });
  if (!isWanted && !data) return null;
  if (error) return <span className="muted time-badge">Replay not checked: {error.message}</span>;
  if (!data) return <span className="muted time-badge">Checking the replay…</span>;
  const tone = data.is_equal ? "tone-done" : "tone-failed";
  return (
    <Tip text={`Compared with ${sources[data.source]} at event ${data.seq}. Press to check again.`} side="top">
      <button
        type="button"
        className={`time-badge time-check ${tone}`}
        disabled={isFetching}
        onClick={() => void refetch()}
      >
        {data.is_equal ? "✓ replayed state = live state" : "✗ replayed state differs from live state"}
      </button>
    </Tip>
  );
}
