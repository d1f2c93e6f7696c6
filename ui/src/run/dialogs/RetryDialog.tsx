// Retries the failed steps in the same run, with a choice of the version.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { retryRun } from "../../api/actions";
import { Button } from "../../parts/Button";
import { CopyButton } from "../../parts/copy";
import { Modal } from "../../parts/Modal";
import { ProblemNote } from "../../parts/ProblemNote";
import { showToast } from "../../parts/toasts";
import { useRun } from "../context";
import { VersionField } from "./VersionField";

export function RetryDialog({ onClose }: { onClose: () => void }) {
  const { detail } = useRun();
  const client = useQueryClient();
  const { execution_id: id, version: current } = detail.execution;
  const [version, setVersion] = useState(current);
  const chosen = version === current ? undefined : version;
  const retry = useMutation({
    mutationFn: () => retryRun(id, chosen),
    onSuccess: () => {
      showToast({ tone: "done", text: `Retrying run ${id}` });
      onClose();
      void client.invalidateQueries({ queryKey: ["run", id] });
    },
  });
  const command = `noetl retry ${id}${chosen === undefined ? "" : ` --version ${chosen}`}`;
  return (
    <Modal
      title="Retry the failed steps?"
      description="The failed work runs again in this run. What succeeded stays."
      onClose={onClose}
      foot={
        <>
          <CopyButton text={command} what="the command">
            Copy CLI
          </CopyButton>
          <span className="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" disabled={retry.isPending} onClick={() => retry.mutate()}>
            Retry failed
          </Button>
        </>
      }
    >
      <VersionField version={version} onChange={setVersion} />
      {retry.error && <ProblemNote error={retry.error} />}
    </Modal>
  );
}
