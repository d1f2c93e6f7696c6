// The last lines that the selected task wrote, with a link to all of them.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { readLogs } from "../../api/queries";
import { useRun } from "../context";
import { AnsiText } from "../logs/AnsiText";
import { styleOf } from "../logs/LogRow";
import { withSelection, type Selection } from "../runView";
import { useCursorTime } from "../time/cursor";
import { Section } from "./Section";

const linesShown = 12;

const tailQuery = (
  id: string,
  { step, task, iteration }: Selection,
  attempt: number | undefined,
  until: string | undefined,
) =>
  queryOptions({
    queryKey: ["run", id, "log tail", step, task, iteration, attempt, until],
    queryFn: () =>
      readLogs(id, {
        tail: linesShown,
        step,
        ...(until === undefined ? {} : { until_time: until }),
        ...(task === undefined ? {} : { task }),
        ...(iteration === undefined ? {} : { iteration }),
        ...(attempt === undefined ? {} : { attempt }),
      }),
  });

export function LogTail({ selection, attempt }: { selection: Selection; attempt: number | undefined }) {
  const { detail, setView } = useRun();
  const until = useCursorTime();
  const { data } = useQuery({
    ...tailQuery(detail.execution_id, selection, attempt, until ?? undefined),
    enabled: until !== null,
  });
  const lines = data?.lines ?? [];
  const openLogs = () => setView((view) => ({ ...withSelection(view, selection), tab: "logs", from: "selection" }));
  return (
    <Section
      title="Log"
      extra={
        lines.length > 0 && (
          <button type="button" className="link" onClick={openLogs}>
            All lines
          </button>
        )
      }
    >
      {lines.length > 0 ? (
        <pre className="block" tabIndex={0}>
          {lines.map((line, index) => (
            <span key={index} className={`log-tail-line ${styleOf(line)}`}>
              <AnsiText text={line.text} />
            </span>
          ))}
        </pre>
      ) : (
        <p className="muted">{data ? "This attempt wrote nothing." : ""}</p>
      )}
    </Section>
  );
}
