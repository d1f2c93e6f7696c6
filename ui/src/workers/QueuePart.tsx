// Commands that wait for workers: by pool and kinds, and one by one with the reason.
import { Link } from "@tanstack/react-router";
import type { QueueOverview } from "../api/types";
import { DataTable, PagePart } from "../parts/DataTable";
import { Age } from "../parts/Time";
import { KindTags } from "./tables";
import { Reason } from "./reasons";

export function QueuePart({ queue, pool }: { queue: QueueOverview; pool: string | undefined }) {
  const isShown = (entry: { pool: string }) => pool === undefined || entry.pool === pool;
  const queues = queue.queues.filter(isShown);
  const commands = queue.commands.filter(isShown);
  if (queues.length === 0) {
    return (
      <PagePart title="Queue">
        <p className="muted">No task waits for a worker.</p>
      </PagePart>
    );
  }
  return (
    <>
      <PagePart title="Queue">
        <DataTable label="Queue" columns={["Pool", "Waiting", "Oldest", "Why the oldest waits", "Kinds"]}>
          {queues.map((entry) => (
            <tr key={`${entry.pool} ${entry.kinds.join(" ")}`}>
              <td className="mono">{entry.pool}</td>
              <td>{entry.commands}</td>
              <td className="muted">
                <Age at={entry.oldest_at} />
              </td>
              <td className="cell-wide">
                <Reason reason={entry.reason} />
              </td>
              <td>
                <KindTags kinds={entry.kinds} none="any" />
              </td>
            </tr>
          ))}
        </DataTable>
        {!queue.is_complete && <p className="muted">The queue is longer; only the oldest commands are counted.</p>}
      </PagePart>
      <PagePart title="Waiting tasks">
        <DataTable label="Waiting tasks" columns={["Run", "Step", "Why it is not running", "Waits since", "Pool"]}>
          {commands.map((command) => (
            <tr key={command.command_id}>
              <td>
                <Link to="/runs/$id" params={{ id: command.execution_id }} search={{ step: command.step }}>
                  {command.name}
                </Link>{" "}
                <span className="mono muted cell-extra">{command.execution_id}</span>
              </td>
              <td className="mono">{command.step}</td>
              <td className="cell-wide">
                <Reason reason={command.reason} />
              </td>
              <td className="muted">
                <Age at={command.issued_at} />
              </td>
              <td className="mono">{command.pool}</td>
            </tr>
          ))}
        </DataTable>
      </PagePart>
    </>
  );
}
