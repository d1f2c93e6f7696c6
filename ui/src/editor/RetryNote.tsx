// After a playbook was repaired: retries the run that failed, with the new version.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { retryRun } from "../api/actions";
import { Button } from "../parts/Button";
import { ProblemNote } from "../parts/ProblemNote";
import { useMay } from "../shell/role";

export function RetryNote({ run, version }: { run: string; version: number }) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const mayOperate = useMay("operator");
  const retry = useMutation({
    mutationFn: () => retryRun(run, version),
    onSuccess: async () => {
      // The run was read as failed before.
      client.removeQueries({ queryKey: ["run", run] });
      await navigate({ to: "/runs/$id", params: { id: run }, ignoreBlocker: true });
    },
  });
  if (!mayOperate) return null;
  return (
    <div className="editor-note row">
      <span className="grow">
        Version {version} is saved. The failed run <span className="mono">{run}</span> can repeat its failed work with
        it.
      </span>
      <Button isSmall look="primary" disabled={retry.isPending} onClick={() => retry.mutate()}>
        Retry with this version
      </Button>
      {retry.error && <ProblemNote error={retry.error} />}
    </div>
  );
}
