// The playbooks that call this one.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { callersQuery } from "../api/queries";
import { ProblemNote } from "../parts/ProblemNote";

export function CallersTab({ path }: { path: string }) {
  const { data, error, refetch } = useQuery(callersQuery(path));
  if (error) return <ProblemNote error={error} onRetry={() => void refetch()} />;
  if (!data) return null;
  if (data.callers.length === 0) {
    return (
      <div className="notice">
        <p className="muted">No registered playbook calls this one by its path. A task that does:</p>
        <pre>{`tool: { kind: playbook, path: ${path} }`}</pre>
      </div>
    );
  }
  return (
    <>
      <table className="playbook-table panel">
        <thead>
          <tr>
            <th scope="col">Playbook</th>
            <th scope="col">Version</th>
            <th scope="col">Task</th>
            <th scope="col">Line</th>
          </tr>
        </thead>
        <tbody>
          {data.callers.map((caller) => (
            <tr key={`${caller.path} ${caller.step} ${caller.task}`}>
              <td>
                <Link
                  to="/playbooks/$path"
                  params={{ path: caller.path }}
                  search={{ tab: "source", line: caller.line }}
                  className="playbook-link"
                >
                  {caller.path}
                </Link>
              </td>
              <td>{caller.version}</td>
              <td className="mono">
                {caller.step}/{caller.task}
              </td>
              <td>{caller.line}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {!data.is_complete && <p className="notice muted">There are more callers.</p>}
    </>
  );
}
