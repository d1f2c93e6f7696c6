// One line about the server: workers, queue and store. Each part leads to the page with the details.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { queueQuery, systemQuery, workersQuery } from "../api/adminQueries";
import { formatBytes } from "../lib/json";
import { formatDuration } from "../lib/time";
import { MarkIcon } from "../parts/StatusMark";
import { Age } from "../parts/Time";

const refreshMs = 10_000;
/** The server counts runs for the state of the store. */
const storeRefreshMs = 60_000;

export function HealthLine() {
  return (
    <section className="panel home-health" aria-label="Health">
      <WorkersPart />
      <QueuePart />
      <StorePart />
    </section>
  );
}

function WorkersPart() {
  const { data } = useQuery({ ...workersQuery, refetchInterval: refreshMs });
  if (!data) return null;
  const total = { workers: 0, leases: 0, slots: 0 };
  for (const pool of data.pools) {
    total.workers += pool.workers;
    total.leases += pool.leases;
    total.slots += pool.slots;
  }
  return (
    <Link to="/workers" className="home-count">
      <MarkIcon mark={total.workers > 0 ? "done" : "failed"} />
      {total.workers.toLocaleString("en")} {total.workers === 1 ? "worker" : "workers"} alive
      <span className="muted">
        {total.leases.toLocaleString("en")} of {total.slots.toLocaleString("en")} slots in use
      </span>
    </Link>
  );
}

function QueuePart() {
  const { data } = useQuery({ ...queueQuery, refetchInterval: refreshMs });
  if (!data) return null;
  const commands = data.queues.reduce((total, queue) => total + queue.commands, 0);
  const oldest = data.queues.map((queue) => queue.oldest_at).sort()[0];
  return (
    <Link to="/workers" className="home-count">
      <MarkIcon mark={commands > 0 ? "waiting" : "done"} />
      {commands > 0
        ? `${commands.toLocaleString("en")}${data.is_complete ? "" : " or more"} queued`
        : "no task waits for a worker"}
      {oldest && (
        <span className="muted">
          the oldest since <Age at={oldest} />
        </span>
      )}
    </Link>
  );
}

function StorePart() {
  const { data } = useQuery({ ...systemQuery, refetchInterval: storeRefreshMs });
  if (!data) return null;
  const { store, results } = data;
  return (
    <Link to="/system" className="home-count">
      {store.kind === "postgres" ? "Postgres" : "SQLite"} {formatBytes(store.bytes)}
      <span className="muted">
        {results.retention_s == null
          ? "results are not deleted"
          : `results are kept for ${formatDuration(results.retention_s * 1000)}`}
      </span>
    </Link>
  );
}
