// The catalog: all playbooks with their latest versions.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useRef } from "react";
import { catalogQuery, recentRunsQuery } from "../api/queries";
import type { RecentRuns } from "../api/types";
import { formatDuration } from "../lib/time";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { ProblemNote } from "../parts/ProblemNote";
import { Age } from "../parts/Time";
import { useKeys } from "../shell/keyboard";
import { Page } from "../shell/Page";
import { useMay } from "../shell/role";
import { OutcomeStrip } from "./OutcomeStrip";
import { RegisterDialog } from "./RegisterDialog";
import "./playbooks.css";

const route = getRouteApi("/playbooks");
const refreshMs = 15_000;

export function PlaybooksPage() {
  const { q = "", dialog } = route.useSearch();
  const navigate = route.useNavigate();
  const mayAuthor = useMay("author");
  const inputRef = useRef<HTMLInputElement>(null);
  const { data, error, refetch } = useQuery(catalogQuery);
  const entries = data?.entries.filter((entry) => entry.path.toLowerCase().includes(q.toLowerCase())) ?? [];
  const { data: recent } = useQuery({
    ...recentRunsQuery(data?.entries.map((entry) => entry.path) ?? []),
    enabled: (data?.entries.length ?? 0) > 0,
    refetchInterval: refreshMs,
  });
  const setSearch = (next: { q?: string; dialog?: "register" }) => void navigate({ search: next, replace: true });
  useKeys("Playbooks", [{ keys: "/", label: "Filter", run: () => inputRef.current?.focus() }]);

  return (
    <Page
      title="Playbooks"
      actions={
        mayAuthor && (
          <>
            <Button onClick={() => setSearch({ ...(q && { q }), dialog: "register" })}>Register…</Button>
            <Link to="/playbooks/new" className="button button-primary">
              New playbook
            </Link>
          </>
        )
      }
    >
      <div className="page-body">
        {error && <ProblemNote error={error} onRetry={() => void refetch()} />}
        {data && data.entries.length === 0 && <EmptyCatalog />}
        {data && data.entries.length > 0 && (
          <>
            <input
              ref={inputRef}
              className="input playbook-filter"
              type="search"
              aria-label="Filter playbooks"
              placeholder="Filter by path"
              value={q}
              onChange={(event) => setSearch(event.target.value ? { q: event.target.value } : {})}
            />
            <table className="playbook-table panel">
              <thead>
                <tr>
                  <th scope="col">Path</th>
                  <th scope="col">Version</th>
                  <th scope="col">Last runs</th>
                  <th scope="col">p50</th>
                  <th scope="col">p95</th>
                  <th scope="col">Registered</th>
                </tr>
              </thead>
              <tbody>
                {entries.map((entry) => (
                  <tr key={entry.path}>
                    <td>
                      <Link to="/playbooks/$path" params={{ path: entry.path }} className="playbook-link">
                        {entry.path}
                      </Link>
                    </td>
                    <td>{entry.version}</td>
                    <RecentCells runs={recent?.get(entry.path)} />
                    <td className="muted">
                      <Age at={entry.registered_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {entries.length === 0 && <p className="notice muted">No playbook has “{q}” in its path.</p>}
          </>
        )}
      </div>
      {dialog === "register" && mayAuthor && <RegisterDialog onClose={() => setSearch(q ? { q } : {})} />}
    </Page>
  );
}

function RecentCells({ runs }: { runs: RecentRuns | undefined }) {
  const measured = runs && `of ${runs.measured_runs} completed runs`;
  return (
    <>
      <td>{runs && <OutcomeStrip outcomes={runs.outcomes} />}</td>
      <td title={measured}>{runs?.p50_ms != null && formatDuration(runs.p50_ms)}</td>
      <td title={measured}>{runs?.p95_ms != null && formatDuration(runs.p95_ms)}</td>
    </>
  );
}

const commands = "noetl init hello && cd hello\nnoetl register hello.yaml";

function EmptyCatalog() {
  return (
    <div className="notice panel">
      <h2>No playbooks yet</h2>
      <p>Register one here, or from a terminal:</p>
      <pre>{commands}</pre>
      <CopyButton text={commands} what="the commands">
        Copy
      </CopyButton>
    </div>
  );
}
