// Starts a new run from this one: all of it, or from a step or an iteration, with other inputs or another version. The
// server previews what the new run would reuse and run.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { rerunRun, writeRerunOptions, type RerunOptions } from "../../api/actions";
import { graphQuery, inputFormQuery, rerunPreviewQuery, runInputsQuery } from "../../api/queries";
import { rerunCommand } from "../../lib/cli";
import { Button } from "../../parts/Button";
import { CopyButton } from "../../parts/copy";
import { emptyDraft, InputForm, readInputs } from "../../parts/InputForm";
import { Modal } from "../../parts/Modal";
import { ProblemNote } from "../../parts/ProblemNote";
import { showToast } from "../../parts/toasts";
import { useSettled } from "../../parts/useSettled";
import { useRun } from "../context";
import { RerunPreviewPanel } from "./RerunPreviewPanel";
import { failedOnly, StepField } from "./StepField";
import { VersionField } from "./VersionField";

export function RerunDialog({ onClose }: { onClose: () => void }) {
  const { detail, view, setView } = useRun();
  const navigate = useNavigate();
  const { execution_id: id, path, version: current, status } = detail.execution;
  const [version, setVersion] = useState(current);
  const [fromStep, setFromStep] = useState(view.step ?? "");
  const [fromIteration, setFromIteration] = useState(view.iteration === undefined ? "" : String(view.iteration));
  const [draft, setDraft] = useState(emptyDraft);
  const graph = useQuery(graphQuery(id));
  const form = useQuery(inputFormQuery(path, version));
  const earlier = useQuery(runInputsQuery(id));
  const steps = graph.data?.steps.filter((step) => step.status !== "not_reached") ?? [];
  const isLoop = steps.some((step) => step.step === fromStep && step.loop);
  const schema = form.data?.schema ?? {};
  const inputs = readInputs(schema, earlier.data ?? {}, draft);
  const options: RerunOptions = {
    ...(fromStep ? { from_step: fromStep } : {}),
    ...(isLoop && /^\d{1,15}$/.test(fromIteration) ? { from_iteration: Number(fromIteration) } : {}),
    ...(version === current ? {} : { version }),
    ...(inputs && inputs !== "{}" ? { payload: inputs } : {}),
  };
  const wanted = writeRerunOptions(options);
  const settled = useSettled(wanted);
  const preview = useQuery({ ...rerunPreviewQuery(id, settled), placeholderData: (previous) => previous });
  const isRefused = settled === wanted && preview.error !== null;
  const rerun = useMutation({
    mutationFn: () => rerunRun(id, options),
    onSuccess: ({ execution_id: newId }) => {
      showToast({ tone: "done", text: `Started run ${newId}` });
      void navigate({ to: "/runs/$id", params: { id: newId } });
    },
  });
  const chooseStep = (step: string) => {
    if (step === failedOnly) setView((now) => ({ ...now, dialog: "retry" }), true);
    else setFromStep(step);
  };

  return (
    <Modal
      title="Rerun"
      description="Starts a new run. Results of the steps before the chosen one are reused."
      isWide
      onClose={onClose}
      foot={
        <>
          <CopyButton text={rerunCommand(id, options)} what="the command">
            Copy CLI
          </CopyButton>
          <span className="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button
            look="primary"
            disabled={rerun.isPending || inputs === null || isRefused || !form.data || !earlier.isFetched}
            onClick={() => rerun.mutate()}
          >
            Start the new run
          </Button>
        </>
      }
    >
      <StepField
        steps={steps.map(({ step }) => step)}
        mayRetry={status === "FAILED" || status === "CANCELLED"}
        step={fromStep}
        onStep={chooseStep}
        iteration={isLoop ? fromIteration : null}
        onIteration={setFromIteration}
      />
      <VersionField version={version} onChange={setVersion} />
      {form.error && <ProblemNote error={form.error} onRetry={() => void form.refetch()} />}
      {form.data && earlier.isFetched && (
        <InputForm schema={schema} values={earlier.data ?? {}} draft={draft} onChange={setDraft} />
      )}
      {preview.error && <ProblemNote error={preview.error} />}
      {!preview.error && preview.data && <RerunPreviewPanel preview={preview.data} />}
      {rerun.error && <ProblemNote error={rerun.error} />}
    </Modal>
  );
}
