// Version, store, results and limits of the server, with links to its documents.
import { useQuery } from "@tanstack/react-query";
import { systemQuery } from "../api/adminQueries";
import { apiUrl } from "../api/client";
import type { LimitEntry, SystemStatus } from "../api/types";
import { formatBytes } from "../lib/json";
import { formatDuration, formatUtc } from "../lib/time";
import { CopyIcon } from "../parts/copy";
import { DataTable, PagePart } from "../parts/DataTable";
import { ProblemNote } from "../parts/ProblemNote";
import { Age } from "../parts/Time";

const refreshMs = 30_000;

export function OverviewTab() {
  const { data, error, refetch } = useQuery({ ...systemQuery, refetchInterval: refreshMs });
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  const system = data as SystemStatus;
  return (
    <>
      <ServerPart system={system} />
      <StorePart system={system} />
      <PagePart title="Limits">
        <DataTable label="Limits" columns={["Limit", "Value", "Error code"]}>
          {(system.limits as LimitEntry[]).map((limit) => (
            <tr key={limit.name}>
              <td>{limit.name}</td>
              <td>{formatLimit(limit)}</td>
              <td className="mono">{limit.code ?? <span className="muted">none</span>}</td>
            </tr>
          ))}
        </DataTable>
      </PagePart>
      <BackupPart system={system} />
      <PagePart title="Documents">
        <p className="system-links">
          <a href={apiUrl("/docs").href}>API documentation</a>
          <a href={apiUrl("/openapi.json").href}>OpenAPI document</a>
          <a href={apiUrl("/metrics").href}>Metrics</a>
          <a href={apiUrl("/docs/licenses.txt").href}>Licenses of the server</a>
          <a href={apiUrl("/licenses.txt").href}>Licenses of the web client</a>
          <a href={apiUrl("/licenses-fonts.txt").href}>Licenses of the fonts</a>
        </p>
      </PagePart>
    </>
  );
}

function formatLimit({ value, unit }: LimitEntry): string {
  if (unit === "bytes") return formatBytes(value);
  if (unit === "seconds") return formatDuration(value * 1000);
  return value.toLocaleString("en");
}

function ServerPart({ system }: { system: SystemStatus }) {
  return (
    <PagePart title="Server">
      <dl className="facts">
        <dt>Version</dt>
        <dd>
          {system.version} <CopyIcon text={system.version} what="the version" />
        </dd>
        <dt>Build</dt>
        <dd>
          {system.platform}
          {!system.is_release_build && <span className="muted">, debug build</span>}
        </dd>
        <dt>Started</dt>
        <dd>
          {formatUtc(system.started_at)}, <Age at={system.started_at} />
        </dd>
        <dt>Access</dt>
        <dd>{system.requires_tokens ? "an access token is required" : "open to everyone who can connect"}</dd>
        <dt>NATS</dt>
        <dd>
          {system.publishes_events ? "events are published" : "not configured"}
          {system.nats_address && <span className="mono"> {system.nats_address}</span>}
        </dd>
      </dl>
    </PagePart>
  );
}

function StorePart({ system: { store, results } }: { system: SystemStatus }) {
  return (
    <PagePart title="Store">
      <dl className="facts">
        <dt>Database</dt>
        <dd>{store.kind === "postgres" ? "Postgres" : "SQLite"}</dd>
        {store.location && (
          <>
            <dt>Location</dt>
            <dd className="mono">{store.location}</dd>
          </>
        )}
        <dt>Size</dt>
        <dd>{formatBytes(store.bytes)}</dd>
        <dt>Runs</dt>
        <dd>
          {store.runs.toLocaleString("en")}
          {!store.is_runs_complete && " or more"}
        </dd>
        {results.location && (
          <>
            <dt>Large results</dt>
            <dd className="mono">{results.location}</dd>
          </>
        )}
        <dt>Result stores</dt>
        <dd>{results.configured.length > 0 ? results.configured.join(", ") : "only the store itself"}</dd>
        <dt>Retention of results</dt>
        <dd>
          {results.retention_s == null
            ? "this server deletes no results"
            : `${formatDuration(results.retention_s * 1000)} after the end of the run`}
        </dd>
      </dl>
    </PagePart>
  );
}

const dumpCommand = 'pg_dump --format=custom --schema=noetl --file=noetl.dump "$PGURL"';

function BackupPart({ system: { store } }: { system: SystemStatus }) {
  if (store.kind === "postgres") {
    return (
      <PagePart title="Backup" extra={<CopyIcon text={dumpCommand} what="the command" />}>
        <p>The schema noetl has all data except results in buckets. Back up the master key separately.</p>
        <pre className="system-block">{dumpCommand}</pre>
      </PagePart>
    );
  }
  return (
    <PagePart title="Backup">
      <p>
        Stop the processes that use the store directory, then copy the whole directory. Keep a copy of{" "}
        <code>master.key</code> in a different place.
      </p>
    </PagePart>
  );
}
