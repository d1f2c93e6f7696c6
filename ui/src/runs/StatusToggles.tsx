// One toggle for each status, with the number of runs that have it.
import type { Facets } from "../api/types";
import { runStatuses, toggleStatus, type RunFilter } from "../lib/filter";
import { lookOf } from "../lib/status";
import { Button } from "../parts/Button";
import { MarkIcon } from "../parts/StatusMark";

interface StatusTogglesProps {
  filter: RunFilter;
  facets: Facets;
  onChange: (filter: RunFilter) => void;
}

export function StatusToggles({ filter, facets, onChange }: StatusTogglesProps) {
  const selected = filter.status?.split(",") ?? [];
  const count = (status: string) => facets.statuses.find(({ value }) => value === status)?.count ?? 0;
  return (
    <div className="status-toggles" role="group" aria-label="Statuses">
      {runStatuses
        .filter((status) => selected.includes(status) || count(status) > 0)
        .map((status) => (
          <Button
            key={status}
            isSmall
            look="quiet"
            aria-pressed={selected.includes(status)}
            onClick={() => onChange(toggleStatus(filter, status))}
          >
            <MarkIcon mark={lookOf(status).mark} />
            {lookOf(status).word}
            <span className="muted">{count(status).toLocaleString("en")}</span>
          </Button>
        ))}
      <span className="grow" />
      <span className="muted">
        {facets.total.toLocaleString("en")} {facets.total === 1 ? "run" : "runs"}
        {!facets.is_complete && " counted, the newest"}
      </span>
    </div>
  );
}
