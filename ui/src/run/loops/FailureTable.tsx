// The failed iterations of a loop by error, with links to each.
import { useQuery } from "@tanstack/react-query";
import { failuresQuery } from "../../api/queries";
import { useRun } from "../context";
import { formatCount } from "./cells";

const linksMax = 20;

export function FailureTable({ step }: { step: string }) {
  const { detail, select } = useRun();
  const { data } = useQuery(failuresQuery(detail.execution_id));
  const groups = data?.filter((group) => group.step === step && group.iterations.length > 0) ?? [];
  if (groups.length === 0) return null;
  return (
    <section className="failure-groups" aria-labelledby="failure-groups-title">
      <h2 id="failure-groups-title">Failures by error</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">Iterations</th>
            <th scope="col">Task</th>
            <th scope="col">Error</th>
            <th scope="col">First iterations</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <tr key={`${group.task} ${group.code} ${group.message}`}>
              <td className="failure-count">{formatCount(group.count)}</td>
              <td className="mono">{group.task ?? ""}</td>
              <td className="break">
                <span className="problem-code">{group.code}</span> {group.message}
              </td>
              <td className="failure-iterations">
                {group.iterations.slice(0, linksMax).map((iteration) => (
                  <button
                    key={iteration}
                    type="button"
                    className="link mono"
                    onClick={() => select({ step, iteration, ...(group.task === null ? {} : { task: group.task }) })}
                  >
                    #{iteration}
                  </button>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
