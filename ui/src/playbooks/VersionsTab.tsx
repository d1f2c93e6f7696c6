// The versions of a playbook, and what differs between two of them.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { diffQuery, versionsQuery } from "../api/queries";
import type { PlaybookVersion } from "../api/types";
import { Button } from "../parts/Button";
import { DiffView } from "../parts/PlaybookDiff";
import { ProblemNote } from "../parts/ProblemNote";
import { Age } from "../parts/Time";

const route = getRouteApi("/playbooks/$path");

export function VersionsTab({ path, version, newest }: { path: string; version: number; newest: number }) {
  const { from: chosenFrom, to: chosenTo } = route.useSearch();
  const navigate = route.useNavigate();
  const versions = useInfiniteQuery(versionsQuery(path));
  const pages = versions.data?.pages ?? [];
  const entries = pages.flatMap((page) => page.versions);
  const to = chosenTo ?? version;
  const from = chosenFrom ?? Math.max(1, to - 1);
  const compare = (change: { from?: number; to?: number }) =>
    void navigate({ search: (search) => ({ ...search, from, to, ...change }), replace: true });
  const numbers = Array.from({ length: newest }, (_, index) => newest - index);
  return (
    <div className="page-body versions-tab">
      {versions.error && <ProblemNote error={versions.error} onRetry={() => void versions.refetch()} />}
      {newest > 1 && (
        <section className="versions-diff" aria-label="Difference">
          <div className="row versions-bar">
            <VersionSelect
              label="Compare"
              numbers={numbers}
              value={from}
              onChange={(value) => compare({ from: value })}
            />
            <VersionSelect label="with" numbers={numbers} value={to} onChange={(value) => compare({ to: value })} />
          </div>
          <Difference path={path} from={from} to={to} />
        </section>
      )}
      {entries.length > 0 && (
        <VersionTable entries={entries} path={path} countedRuns={pages[0]?.counted_runs ?? 0} from={from} to={to} />
      )}
      {versions.hasNextPage && (
        <p>
          <Button disabled={versions.isFetchingNextPage} onClick={() => void versions.fetchNextPage()}>
            Show older versions
          </Button>
        </p>
      )}
    </div>
  );
}

interface VersionSelectProps {
  label: string;
  numbers: number[];
  value: number;
  onChange: (version: number) => void;
}

function VersionSelect({ label, numbers, value, onChange }: VersionSelectProps) {
  return (
    <label className="row">
      {label}
      <select
        className="input playbook-version"
        value={value}
        onChange={(event) => onChange(Number(event.target.value))}
      >
        {numbers.map((number) => (
          <option key={number} value={number}>
            version {number}
          </option>
        ))}
      </select>
    </label>
  );
}

function Difference({ path, from, to }: { path: string; from: number; to: number }) {
  const { data, error, refetch } = useQuery(diffQuery(path, from, to));
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  return data ? <DiffView diff={data} /> : null;
}

interface VersionTableProps {
  entries: PlaybookVersion[];
  path: string;
  countedRuns: number;
  from: number;
  to: number;
}

function VersionTable({ entries, path, countedRuns, from, to }: VersionTableProps) {
  return (
    <table className="playbook-table panel version-table">
      <thead>
        <tr>
          <th scope="col">Version</th>
          <th scope="col">Registered</th>
          <th scope="col">Runs</th>
          <th scope="col">SHA-256</th>
          <th scope="col">Changes</th>
        </tr>
      </thead>
      <tbody>
        {entries.map((entry) => (
          <tr key={entry.version} data-compared={entry.version === from || entry.version === to || undefined}>
            <td>
              <Link to="/playbooks/$path" params={{ path }} search={{ tab: "source", version: entry.version }}>
                {entry.version}
              </Link>
            </td>
            <td className="muted">
              <Age at={entry.registered_at} />
            </td>
            <td title={`of the newest ${countedRuns} runs`}>{entry.runs}</td>
            <td className="mono muted">{entry.hash.slice(0, 12)}</td>
            <td>
              {entry.version > 1 && (
                <Link
                  to="/playbooks/$path"
                  params={{ path }}
                  search={{ tab: "versions", from: entry.version - 1, to: entry.version }}
                >
                  since {entry.version - 1}
                </Link>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
