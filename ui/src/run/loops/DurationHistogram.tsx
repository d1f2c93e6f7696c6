// How long iterations took: a bar for each range of durations, with the failed ones.
import { useQuery } from "@tanstack/react-query";
import { durationsQuery } from "../../api/queries";
import type { DurationParams, LoopDurations } from "../../api/types";
import { formatMicroseconds } from "../../lib/time";
import { ProblemNote } from "../../parts/ProblemNote";
import { formatCount } from "./cells";

interface DurationHistogramProps {
  id: string;
  step: string;
  place: DurationParams;
}

export function DurationHistogram({ id, step, place }: DurationHistogramProps) {
  const { data, error, refetch } = useQuery({
    ...durationsQuery(id, step, place),
    placeholderData: (before) => (before?.step === step ? before : undefined),
  });
  return (
    <section className="durations" aria-labelledby="durations-title">
      <h2 id="durations-title">Durations</h2>
      {error && !data && <ProblemNote error={error} onRetry={() => void refetch()} />}
      {data?.measured === 0 && <p className="muted">No iteration has ended yet.</p>}
      {data && data.measured > 0 && <DurationTable durations={data} />}
    </section>
  );
}

function DurationTable({ durations }: { durations: LoopDurations }) {
  const highest = Math.max(1, ...durations.bins.map((bin) => bin.count));
  const share = (count: number) => ({ width: `${(count / highest) * 100}%` });
  return (
    <>
      <p className="muted">
        median {showDuration(durations.median_us)}, 95% up to {showDuration(durations.p95_us)}, longest{" "}
        {showDuration(durations.max_us)}
      </p>
      <table className="duration-table">
        <thead className="visually-hidden">
          <tr>
            <th scope="col">Duration</th>
            <th scope="col">Iterations</th>
            <th scope="col">Number</th>
          </tr>
        </thead>
        <tbody>
          {durations.bins.map((bin) => (
            <tr key={bin.from_us}>
              <th scope="row" className="muted">
                from {formatMicroseconds(bin.from_us)}
              </th>
              <td className="duration-bar">
                <span className="fill-done" style={share(bin.count - bin.failed)} />
                <span className="fill-failed" style={share(bin.failed)} />
              </td>
              <td>
                {formatCount(bin.count)}
                {bin.failed > 0 && <span className="tone-failed"> ✗ {formatCount(bin.failed)}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {!durations.is_complete && (
        <p className="muted">A sample of {formatCount(durations.measured)} iterations, evenly distributed.</p>
      )}
    </>
  );
}

function showDuration(us: number | null): string {
  return us === null ? "unknown" : formatMicroseconds(us);
}
