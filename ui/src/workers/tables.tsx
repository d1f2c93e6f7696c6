// The workers, the commands that they hold, and the servers of the cluster.
import { Link } from "@tanstack/react-router";
import type { WorkerOverview } from "../api/types";
import { DataTable, PagePart } from "../parts/DataTable";
import { StatusMark } from "../parts/StatusMark";
import { Age, TimeLeft } from "../parts/Time";

/** Tool kinds as tags; `none` if there are none. */
export function KindTags({ kinds, none }: { kinds: string[] | null | undefined; none: string }) {
  if (!kinds || kinds.length === 0) return <span className="muted">{none}</span>;
  return (
    <span className="tags">
      {kinds.map((kind) => (
        <span key={kind} className="tag">
          {kind}
        </span>
      ))}
    </span>
  );
}

export function WorkerTable({ workers }: { workers: WorkerOverview["workers"] }) {
  if (workers.length === 0) return null;
  return (
    <PagePart title="Workers">
      <DataTable
        label="Workers"
        columns={["Worker", "Status", "Pool", "Slots in use", "Kinds", "Version", "Last heartbeat"]}
      >
        {workers.map((worker) => (
          <tr key={worker.worker}>
            <td className="mono">{worker.worker}</td>
            <td>
              <StatusMark status={worker.is_alive ? "alive" : "gone"} />
            </td>
            <td className="mono">{worker.pool ?? <span className="muted">not reported</span>}</td>
            <td>
              {worker.leases}
              {worker.slots != null && <span className="muted"> of {worker.slots}</span>}
            </td>
            <td className="cell-wide">
              <KindTags kinds={worker.kinds} none={worker.pool ? "all" : "not reported"} />
            </td>
            <td className="muted">{worker.version ?? "not reported"}</td>
            <td className="muted">
              {worker.heartbeat_at ? (
                <Age at={worker.heartbeat_at} />
              ) : (
                <>
                  ended <Age at={worker.expires_at} />
                </>
              )}
            </td>
          </tr>
        ))}
      </DataTable>
    </PagePart>
  );
}

export function LeaseTable({ leases }: { leases: WorkerOverview["leases"] }) {
  return (
    <PagePart title="Leases">
      {leases.length === 0 ? (
        <p className="muted">No worker runs a task at the moment.</p>
      ) : (
        <DataTable label="Leases" columns={["Run", "Step", "Worker", "Claimed", "Expires"]}>
          {leases.map((lease) => (
            <tr key={lease.command_id}>
              <td>
                <Link to="/runs/$id" params={{ id: lease.execution_id }} search={{ step: lease.step }}>
                  {lease.name}
                </Link>{" "}
                <span className="mono muted cell-extra">{lease.execution_id}</span>
              </td>
              <td className="mono">{lease.step}</td>
              <td className="mono">{lease.worker}</td>
              <td className="muted">{lease.claimed_at ? <Age at={lease.claimed_at} /> : "replaced"}</td>
              <td className="muted">
                {lease.is_expired || !lease.expires_at ? (
                  <StatusMark status="expired" />
                ) : (
                  <TimeLeft until={lease.expires_at} />
                )}
              </td>
            </tr>
          ))}
        </DataTable>
      )}
    </PagePart>
  );
}

export function ServerTable({ servers }: { servers: WorkerOverview["servers"] }) {
  return (
    <PagePart title="Servers">
      <DataTable label="Servers" columns={["Process", "Status", "Address", "Last heartbeat"]}>
        {servers.map((server) => (
          <tr key={server.owner}>
            <td className="mono">
              {server.owner} {server.is_this && <span className="muted">this server</span>}
            </td>
            <td>
              <StatusMark status={server.is_alive ? "alive" : "gone"} />
            </td>
            <td className="mono">{server.address ?? <span className="muted">none</span>}</td>
            <td className="muted">{server.heartbeat_at ? <Age at={server.heartbeat_at} /> : "holds a lock"}</td>
          </tr>
        ))}
      </DataTable>
    </PagePart>
  );
}
