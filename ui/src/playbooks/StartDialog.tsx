// Starts a run of a playbook with inputs from a form, and goes to it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { startRun } from "../api/actions";
import { inputFormQuery } from "../api/queries";
import { startRunCommand } from "../lib/cli";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { emptyDraft, InputForm, readInputs } from "../parts/InputForm";
import { Modal } from "../parts/Modal";
import { ProblemNote } from "../parts/ProblemNote";
import { showToast } from "../parts/toasts";

interface StartDialogProps {
  path: string;
  version: number;
  onClose: () => void;
}

export function StartDialog({ path, version, onClose }: StartDialogProps) {
  const navigate = useNavigate();
  const [draft, setDraft] = useState(emptyDraft);
  const form = useQuery(inputFormQuery(path, version));
  const schema = form.data?.schema ?? {};
  const inputs = readInputs(schema, {}, draft);
  const start = useMutation({
    mutationFn: () => startRun(path, version, inputs ?? "{}"),
    onSuccess: ({ execution_id: id }) => {
      showToast({ tone: "done", text: `Started run ${id}` });
      void navigate({ to: "/runs/$id", params: { id } });
    },
  });
  return (
    <Modal
      title={`Run ${path}@${version}`}
      onClose={onClose}
      foot={
        <>
          <CopyButton text={startRunCommand(path, version, inputs ?? "{}")} what="the command">
            Copy CLI
          </CopyButton>
          <span className="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button
            look="primary"
            disabled={start.isPending || inputs === null || !form.data}
            onClick={() => start.mutate()}
          >
            {start.isPending ? "Starting…" : "Run"}
          </Button>
        </>
      }
    >
      {form.error && <ProblemNote error={form.error} onRetry={() => void form.refetch()} />}
      {form.data && <InputForm schema={schema} draft={draft} onChange={setDraft} />}
      {start.error && <ProblemNote error={start.error} />}
    </Modal>
  );
}
