// Home: what fails, waits for a person and runs now, the last 24 hours, the newest runs, and the health of the server.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import type { RunFilterParams } from "../api/types";
import { facetsQuery, longestWaitsQuery, newestRunsQuery } from "../api/queries";
import { toApiParams, type RunFilter } from "../lib/filter";
import { lookOf } from "../lib/status";
import { Histogram } from "../parts/Histogram";
import { ProblemNote } from "../parts/ProblemNote";
import { MarkIcon } from "../parts/StatusMark";
import { EmptyRuns } from "../runs/EmptyRuns";
import { Page } from "../shell/Page";
import { groupByPlaybook } from "./failing";
import { HealthLine } from "./HealthLine";
import { RunList } from "./RunList";
import { WaitList } from "./WaitList";
import "./home.css";

const lastDay: RunFilterParams = { since: "24h" };
const refreshMs = 5000;

export function HomePage() {
  const navigate = useNavigate();
  const facets = useQuery({ ...facetsQuery(lastDay), refetchInterval: refreshMs });
  const newest = useQuery({ ...newestRunsQuery({}, 1), refetchInterval: refreshMs });

  if (newest.data?.executions.length === 0) {
    return (
      <Page title="Home">
        <div className="page-body">
          <EmptyRuns filter={{}} onClear={() => undefined} />
        </div>
      </Page>
    );
  }
  return (
    <Page title="Home">
      <div className="page-body home">
        <section className="panel home-day">
          <div className="home-head">
            <h2 className="grow">Last 24 hours</h2>
            {facets.data?.statuses.map(({ value, count }) => (
              <Link key={value} to="/runs" search={{ status: value, since: "24h" }} className="home-count">
                <MarkIcon mark={lookOf(value).mark} />
                {count.toLocaleString("en")} <span className="muted">{lookOf(value).word}</span>
              </Link>
            ))}
          </div>
          {facets.data && (
            <Histogram
              facets={facets.data}
              onPick={(since, until) => void navigate({ to: "/runs", search: { since, until } })}
            />
          )}
          {facets.error && <ProblemNote error={facets.error} onRetry={() => void facets.refetch()} />}
        </section>
        <HealthLine />
        <FailingSection />
        <WaitingSection />
        <RunSection title="Running now" filter={{ status: "RUNNING,PAUSED" }} none="Nothing is running." />
        <RunSection title="Newest runs" filter={{}} none="" />
      </div>
    </Page>
  );
}

const failingFilter: RunFilter = { status: "FAILED", since: "24h" };
const failedRunsMax = 500;
const rowsMax = 8;

/** Playbooks with failed runs. */
function FailingSection() {
  const { data, error, refetch } = useQuery({
    ...newestRunsQuery(toApiParams(failingFilter), failedRunsMax),
    refetchInterval: refreshMs,
  });
  const failing = groupByPlaybook(data?.executions ?? []).slice(0, rowsMax);
  return (
    <Section title="Failing now" filter={failingFilter} error={error} onRetry={() => void refetch()}>
      {data && failing.length === 0 && <p className="muted home-none">No run failed in 24 hours.</p>}
      <RunList
        runs={failing.map(({ newest }) => newest)}
        counts={new Map(failing.map(({ newest, count }) => [newest.execution_id, count]))}
      />
    </Section>
  );
}

/** The longest waits for a decision or a signal. */
function WaitingSection() {
  const { data, error, refetch } = useQuery({ ...longestWaitsQuery(rowsMax), refetchInterval: refreshMs });
  return (
    <section className="panel home-section">
      <div className="home-head">
        <h2 className="grow">Waiting for a person</h2>
        <Link to="/inbox" aria-label="All: Waiting for a person">
          All
        </Link>
      </div>
      {error ? <ProblemNote error={error} onRetry={() => void refetch()} /> : <WaitList waits={data ?? []} />}
      {data?.length === 0 && <p className="muted home-none">No task waits for a decision or a signal.</p>}
    </section>
  );
}

interface RunSectionProps {
  title: string;
  filter: RunFilter;
  none: string;
}

function RunSection({ title, filter, none }: RunSectionProps) {
  const { data, error, refetch } = useQuery({
    ...newestRunsQuery(toApiParams(filter), rowsMax),
    refetchInterval: refreshMs,
  });
  return (
    <Section title={title} filter={filter} error={error} onRetry={() => void refetch()}>
      {data?.executions.length === 0 && <p className="muted home-none">{none}</p>}
      <RunList runs={data?.executions ?? []} />
    </Section>
  );
}

interface SectionProps {
  title: string;
  filter: RunFilter;
  error: unknown;
  onRetry: () => void;
  children: React.ReactNode;
}

function Section({ title, filter, error, onRetry, children }: SectionProps) {
  return (
    <section className="panel home-section">
      <div className="home-head">
        <h2 className="grow">{title}</h2>
        <Link to="/runs" search={filter} aria-label={`All: ${title}`}>
          All
        </Link>
      </div>
      {error ? <ProblemNote error={error} onRetry={onRetry} /> : children}
    </section>
  );
}
