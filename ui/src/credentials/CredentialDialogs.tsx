// Deletes a credential, shows its audit entries, and rotates the master key.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { removeCredential, rotateMasterKey } from "../api/adminActions";
import type { ListedCredential } from "../api/types";
import { quoteArgument } from "../lib/cli";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { Modal } from "../parts/Modal";
import { ProblemNote } from "../parts/ProblemNote";
import { showToast } from "../parts/toasts";
import { AuditList } from "../system/AuditList";
import { UsedBy } from "./CredentialsPage";

interface DialogProps {
  onClose: () => void;
}

export function DeleteDialog({ credential, onClose }: DialogProps & { credential: ListedCredential }) {
  const client = useQueryClient();
  const { name } = credential;
  const uses = credential.used_by?.length ?? 0;
  const remove = useMutation({
    mutationFn: () => removeCredential(name),
    onSuccess: () => {
      showToast({ tone: "done", text: `Deleted ${name}` });
      void client.invalidateQueries({ queryKey: ["credentials"] });
      onClose();
    },
  });
  return (
    <Modal
      title={`Delete ${name}?`}
      description="The value cannot be restored. Workers drop their copy within a minute."
      onClose={onClose}
      foot={
        <>
          <CopyButton text={`noetl secret rm ${quoteArgument(name)}`} what="the command">
            Copy CLI
          </CopyButton>
          <span className="grow" />
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" disabled={remove.isPending} onClick={() => remove.mutate()}>
            Delete the credential
          </Button>
        </>
      }
    >
      {uses > 0 ? (
        <>
          <p>
            {uses === 1 ? "A playbook uses" : `${uses} playbooks use`} it. Runs of{" "}
            {uses === 1 ? "this playbook" : "these playbooks"} fail until the name is set again:
          </p>
          <UsedBy credential={credential} isAll />
        </>
      ) : (
        <p>No playbook in the catalog names it.</p>
      )}
      {remove.error && <ProblemNote error={remove.error} />}
    </Modal>
  );
}

export function HistoryDialog({ name, onClose }: DialogProps & { name: string }) {
  return (
    <Modal title={`Audit entries of ${name}`} isWide onClose={onClose} foot={<Button onClick={onClose}>Close</Button>}>
      <AuditList filter={{ action: "credential.", resource: name }} />
    </Modal>
  );
}

export function RotateDialog({ onClose }: DialogProps) {
  const client = useQueryClient();
  const rotate = useMutation({
    mutationFn: rotateMasterKey,
    onSuccess: () => void client.invalidateQueries({ queryKey: ["audit"] }),
  });
  return (
    <Modal
      title="Rotate the master key?"
      description="All values are encrypted again with the current master key. A local store creates a new key first. Names and values do not change."
      onClose={onClose}
      foot={
        <>
          <CopyButton text="noetl secret rotate-key" what="the command">
            Copy CLI
          </CopyButton>
          <span className="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" disabled={rotate.isPending || rotate.isSuccess} onClick={() => rotate.mutate()}>
            Rotate
          </Button>
        </>
      }
    >
      {rotate.data && (
        <p role="status">
          Master key <span className="mono">{rotate.data.key_id}</span>: {rotate.data.rewrapped} values were encrypted
          again, {rotate.data.remaining} still need the old key.
        </p>
      )}
      {rotate.error && <ProblemNote error={rotate.error} />}
    </Modal>
  );
}
