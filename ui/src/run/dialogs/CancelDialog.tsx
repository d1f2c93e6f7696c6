// Asks before a run is cancelled.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { cancelRun } from "../../api/actions";
import { Button } from "../../parts/Button";
import { Modal } from "../../parts/Modal";
import { ProblemNote } from "../../parts/ProblemNote";
import { showToast } from "../../parts/toasts";
import { useRun } from "../context";

export function CancelDialog({ onClose }: { onClose: () => void }) {
  const { detail } = useRun();
  const client = useQueryClient();
  const reasonId = useId();
  const [reason, setReason] = useState("");
  const [isCascading, setIsCascading] = useState(true);
  const cancel = useMutation({
    mutationFn: () => cancelRun(detail.execution_id, reason.trim(), isCascading),
    onSuccess: () => {
      showToast({ tone: "done", text: `Cancelling run ${detail.execution_id}` });
      onClose();
      void client.invalidateQueries({ queryKey: ["run", detail.execution_id] });
    },
  });
  return (
    <Modal
      title="Cancel this run?"
      description="The tasks that are running are stopped. A cancelled run can be retried."
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Keep it running</Button>
          <Button look="danger" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
            Cancel the run
          </Button>
        </>
      }
    >
      <div className="field">
        <label htmlFor={reasonId}>Reason (optional)</label>
        <input id={reasonId} className="input" value={reason} onChange={(event) => setReason(event.target.value)} />
      </div>
      <label className="check">
        <input type="checkbox" checked={isCascading} onChange={(event) => setIsCascading(event.target.checked)} />
        Cancel its child runs too
      </label>
      {cancel.error && <ProblemNote error={cancel.error} />}
    </Modal>
  );
}
