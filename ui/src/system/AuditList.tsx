// Entries of the audit log, newest first, with older pages on demand.
import { useInfiniteQuery } from "@tanstack/react-query";
import { auditQuery } from "../api/adminQueries";
import type { AuditFilter, AuditLogEntry } from "../api/types";
import { Button } from "../parts/Button";
import { DataTable } from "../parts/DataTable";
import { ProblemNote } from "../parts/ProblemNote";
import { StatusMark } from "../parts/StatusMark";
import { Age } from "../parts/Time";

export function AuditList({ filter }: { filter: AuditFilter }) {
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery(auditQuery(filter));
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  const entries = data.pages.flatMap((page) => page.entries);
  return (
    <>
      {entries.length > 0 && (
        <DataTable
          label="Audit entries"
          columns={["Entry", "When", "Who", "Action", "Resource", "Outcome", "From", "Details"]}
        >
          {entries.map((entry) => (
            <AuditRow key={entry.id} entry={entry} />
          ))}
        </DataTable>
      )}
      <p className="audit-foot muted">
        {hasNextPage ? (
          <Button isSmall disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            {entries.length > 0 ? "Show older entries" : "Search older entries"}
          </Button>
        ) : entries.length > 0 ? (
          "This is the beginning of the log."
        ) : (
          "No entry matches."
        )}
      </p>
    </>
  );
}

function AuditRow({ entry }: { entry: AuditLogEntry }) {
  return (
    <tr>
      <td className="mono muted">{entry.id}</td>
      <td className="muted">
        <Age at={entry.at} />
      </td>
      <td>{entry.actor}</td>
      <td className="mono">{entry.action}</td>
      <td className="mono">{entry.resource}</td>
      <td>
        <StatusMark status={entry.outcome} />
      </td>
      <td className="mono muted">{entry.source}</td>
      <td className="mono muted">{entry.detail ? JSON.stringify(entry.detail) : ""}</td>
    </tr>
  );
}
