// Workers: pools with their slots, the queue and why it waits, leases, and the servers of the cluster.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { queueQuery, workersQuery } from "../api/adminQueries";
import type { WorkerOverview } from "../api/types";
import { quoteArgument } from "../lib/cli";
import { baseUrl } from "../api/client";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { CopyLink } from "../parts/CopyLink";
import { DataTable, PagePart } from "../parts/DataTable";
import { ProblemNote } from "../parts/ProblemNote";
import { Page } from "../shell/Page";
import { QueuePart } from "./QueuePart";
import { LeaseTable, ServerTable, WorkerTable } from "./tables";
import "./workers.css";

const route = getRouteApi("/workers");
const refreshMs = 5000;

export function WorkersPage() {
  const { pool } = route.useSearch();
  const navigate = route.useNavigate();
  const workers = useQuery({ ...workersQuery, refetchInterval: refreshMs });
  const queue = useQuery({ ...queueQuery, refetchInterval: refreshMs });
  const setPool = (next: string | undefined) => void navigate({ search: next === undefined ? {} : { pool: next } });
  const command = workerCommand(pool);
  const error = workers.error ?? queue.error;

  return (
    <Page
      title="Workers"
      actions={
        <>
          <CopyButton text={command} what="the command that starts a worker">
            Copy CLI
          </CopyButton>
          <CopyLink />
        </>
      }
    >
      <div className="page-body">
        {error && <ProblemNote error={error} onRetry={() => void Promise.all([workers.refetch(), queue.refetch()])} />}
        {pool !== undefined && (
          <p className="row worker-filter">
            Pool <span className="tag">{pool}</span>
            <Button isSmall look="quiet" onClick={() => setPool(undefined)}>
              Show all pools
            </Button>
          </p>
        )}
        {workers.data && pool === undefined && <PoolPart overview={workers.data} command={command} onPick={setPool} />}
        {queue.data && <QueuePart queue={queue.data} pool={pool} />}
        {workers.data && (
          <>
            <WorkerTable
              workers={workers.data.workers.filter((worker) => pool === undefined || worker.pool === pool)}
            />
            <LeaseTable leases={selectLeases(workers.data, pool)} />
            {!workers.data.is_complete && <p className="muted">Only the first workers and leases are listed.</p>}
            {pool === undefined && <ServerTable servers={workers.data.servers} />}
          </>
        )}
      </div>
    </Page>
  );
}

function workerCommand(pool: string | undefined): string {
  const server = baseUrl.href.replace(/\/$/, "");
  return `noetl worker --server ${server}${pool === undefined ? "" : ` --pool ${quoteArgument(pool)}`}`;
}

function selectLeases({ leases, workers }: WorkerOverview, pool: string | undefined) {
  if (pool === undefined) return leases;
  const names = new Set(workers.filter((worker) => worker.pool === pool).map(({ worker }) => worker));
  return leases.filter(({ worker }) => names.has(worker));
}

interface PoolPartProps {
  overview: WorkerOverview;
  command: string;
  onPick: (pool: string) => void;
}

function PoolPart({ overview, command, onPick }: PoolPartProps) {
  if (overview.pools.length === 0) {
    return (
      <div className="notice panel worker-empty">
        <h2>No worker is running</h2>
        <p>Tasks wait until a worker claims them. Start one:</p>
        <pre>{command}</pre>
        <CopyButton text={command} what="the command">
          Copy
        </CopyButton>
      </div>
    );
  }
  return (
    <PagePart title="Pools">
      <DataTable label="Pools" columns={["Pool", "Workers", "Slots in use", "Slots"]}>
        {overview.pools.map(({ pool, workers, slots, leases }) => (
          <tr key={pool ?? ""}>
            <td>
              {pool ? (
                <button type="button" className="link mono" onClick={() => onPick(pool)}>
                  {pool}
                </button>
              ) : (
                <span className="muted">not reported</span>
              )}
            </td>
            <td>{workers}</td>
            <td>{leases}</td>
            <td>{slots}</td>
          </tr>
        ))}
      </DataTable>
    </PagePart>
  );
}
