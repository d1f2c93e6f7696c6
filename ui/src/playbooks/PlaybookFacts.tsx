// The head of the page of a playbook: description, version, recent outcomes and durations.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { inputFormQuery, recentRunsQuery } from "../api/queries";
import type { PlaybookEntry } from "../api/types";
import { formatDuration } from "../lib/time";
import { CopyButton, CopyIcon } from "../parts/copy";
import { Age } from "../parts/Time";
import { OutcomeStrip } from "./OutcomeStrip";

const route = getRouteApi("/playbooks/$path");

export function PlaybookFacts({ entry, newest }: { entry: PlaybookEntry; newest: number }) {
  const { path, version } = entry;
  const navigate = route.useNavigate();
  const { data: form } = useQuery(inputFormQuery(path, version));
  const { data: recent } = useQuery(recentRunsQuery([path]));
  const runs = recent?.get(path);
  const versions = Array.from({ length: newest }, (_, index) => newest - index);
  return (
    <div className="playbook-facts">
      {form?.description && <p>{form.description}</p>}
      <div className="run-facts muted">
        <label className="row">
          version
          <select
            className="input playbook-version"
            value={version}
            onChange={(event) => {
              const chosen = Number(event.target.value);
              void navigate({
                search: ({ version: _old, line: _line, ...search }) =>
                  chosen === newest ? search : { ...search, version: chosen },
              });
            }}
          >
            {versions.map((candidate) => (
              <option key={candidate} value={candidate}>
                {candidate}
                {candidate === newest ? ", the latest" : ""}
              </option>
            ))}
          </select>
        </label>
        <span>
          registered <Age at={entry.registered_at} />
        </span>
        <span className="row run-id-fact">
          <span className="mono">{entry.hash.slice(0, 12)}</span>
          <CopyIcon text={entry.hash} what="the hash" />
        </span>
        {runs && runs.outcomes.length > 0 && <OutcomeStrip outcomes={runs.outcomes} />}
        {runs?.p50_ms != null && runs.p95_ms !== null && (
          <span title={`of ${runs.measured_runs} completed runs`}>
            p50 {formatDuration(runs.p50_ms)}, p95 {formatDuration(runs.p95_ms)}
          </span>
        )}
        <Link to="/runs" search={{ playbook: path }}>
          All runs
        </Link>
        <CopyButton text={entry.content ?? ""} what="the playbook">
          Copy YAML
        </CopyButton>
      </div>
    </div>
  );
}
