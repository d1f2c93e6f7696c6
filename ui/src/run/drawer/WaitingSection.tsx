// Why the tasks of a step are not running: its commands that wait for a worker.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { waitingQuery } from "../../api/adminQueries";
import type { GraphStep } from "../../api/types";
import { isLive } from "../../lib/status";
import { Age } from "../../parts/Time";
import { Reason } from "../../workers/reasons";
import { useRun } from "../context";
import { Section } from "./Section";

const refreshMs = 3000;

export function WaitingSection({ step }: { step: GraphStep }) {
  const { detail } = useRun();
  const mayWait = isLive(detail.execution.status) && ["running", "waiting", "retrying"].includes(step.status);
  const { data } = useQuery({
    ...waitingQuery(detail.execution_id),
    enabled: mayWait,
    refetchInterval: refreshMs,
  });
  const commands = mayWait ? (data?.commands ?? []) : [];
  const waiting = commands.filter((command) => command.step === step.step);
  const oldest = waiting[0];
  if (!oldest) return null;
  return (
    <Section
      title="Waits for a worker"
      extra={
        <Link to="/workers" search={{ pool: oldest.pool }}>
          Workers
        </Link>
      }
    >
      <p>
        <Reason reason={oldest.reason} />
      </p>
      <p className="muted">
        {waiting.length === 1 ? "1 command waits" : `${waiting.length} commands wait`} in the pool{" "}
        <code>{oldest.pool}</code>, since <Age at={oldest.issued_at} />.
      </p>
    </Section>
  );
}
