// Starts a new run from this one: all of it, or from a step or an iteration, with other inputs or another version.
import { queryOptions, useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { rerunRun, type RerunOptions } from "../../api/actions";
import { graphQuery, inputFormQuery, readEventPage } from "../../api/queries";
import type { JsonObject } from "../../api/types";
import { quoteArgument } from "../../lib/cli";
import { Button } from "../../parts/Button";
import { CopyButton } from "../../parts/copy";
import { emptyDraft, InputForm, readInputs } from "../../parts/InputForm";
import { Modal } from "../../parts/Modal";
import { ProblemNote } from "../../parts/ProblemNote";
import { showToast } from "../../parts/toasts";
import { useRun } from "../context";
import { VersionField } from "./VersionField";

export function RerunDialog({ onClose }: { onClose: () => void }) {
  const { detail, view } = useRun();
  const navigate = useNavigate();
  const { execution_id: id, path, version: current } = detail.execution;
  const [version, setVersion] = useState(current);
  const [fromStep, setFromStep] = useState(view.step ?? "");
  const [fromIteration, setFromIteration] = useState(view.iteration === undefined ? "" : String(view.iteration));
  const [draft, setDraft] = useState(emptyDraft);
  const graph = useQuery(graphQuery(id));
  const form = useQuery(inputFormQuery(path));
  const earlier = useQuery(inputsQuery(id));
  const steps = graph.data?.steps.filter((step) => step.status !== "not_reached") ?? [];
  const isLoop = steps.some((step) => step.step === fromStep && step.loop);
  const schema = form.data?.schema ?? {};
  const inputs = readInputs(schema, earlier.data ?? {}, draft);
  const options: RerunOptions = {
    ...(fromStep ? { from_step: fromStep } : {}),
    ...(isLoop && /^\d+$/.test(fromIteration) ? { from_iteration: Number(fromIteration) } : {}),
    ...(version === current ? {} : { version }),
    ...(inputs && Object.keys(inputs).length > 0 ? { payload: inputs } : {}),
  };
  const rerun = useMutation({
    mutationFn: () => rerunRun(id, options),
    onSuccess: ({ execution_id: newId }) => {
      showToast({ tone: "done", text: `Started run ${newId}` });
      void navigate({ to: "/runs/$id", params: { id: newId } });
    },
  });

  return (
    <Modal
      title="Rerun"
      description="Starts a new run. Results of the steps before the chosen one are reused."
      onClose={onClose}
      foot={
        <>
          <CopyButton text={rerunCommand(id, options)} what="the command">
            Copy CLI
          </CopyButton>
          <span className="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" disabled={rerun.isPending || inputs === null} onClick={() => rerun.mutate()}>
            Start the new run
          </Button>
        </>
      }
    >
      <StepField
        steps={steps.map(({ step }) => step)}
        step={fromStep}
        onStep={setFromStep}
        iteration={isLoop ? fromIteration : null}
        onIteration={setFromIteration}
      />
      <VersionField version={version} onChange={setVersion} />
      {form.error && <ProblemNote error={form.error} onRetry={() => void form.refetch()} />}
      {form.data && earlier.isFetched && (
        <InputForm schema={schema} values={earlier.data ?? {}} draft={draft} onChange={setDraft} />
      )}
      {rerun.error && <ProblemNote error={rerun.error} />}
    </Modal>
  );
}

interface StepFieldProps {
  steps: string[];
  step: string;
  onStep: (step: string) => void;
  /** Index of the first iteration; null if the step is not a loop. */
  iteration: string | null;
  onIteration: (iteration: string) => void;
}

function StepField({ steps, step, onStep, iteration, onIteration }: StepFieldProps) {
  const stepId = useId();
  const iterationId = useId();
  return (
    <>
      <div className="field">
        <label htmlFor={stepId}>Run again</label>
        <select id={stepId} className="input" value={step} onChange={(event) => onStep(event.target.value)}>
          <option value="">All steps</option>
          {steps.map((name) => (
            <option key={name} value={name}>
              From step {name}
            </option>
          ))}
        </select>
      </div>
      {iteration !== null && (
        <div className="field">
          <label htmlFor={iterationId}>From iteration (optional)</label>
          <input
            id={iterationId}
            className="input"
            inputMode="numeric"
            placeholder="all iterations"
            value={iteration}
            onChange={(event) => onIteration(event.target.value)}
          />
        </div>
      )}
    </>
  );
}

/** The inputs of the run, as its first event records them. */
const inputsQuery = (id: string) =>
  queryOptions({
    queryKey: ["run", id, "inputs"],
    queryFn: async (): Promise<JsonObject> => {
      const { events } = await readEventPage(id, { limit: 1 });
      const inputs = events[0]?.payload["workload"];
      return typeof inputs === "object" && inputs !== null && !Array.isArray(inputs) ? inputs : {};
    },
    staleTime: Infinity,
  });

function rerunCommand(id: string, options: RerunOptions): string {
  return [
    `noetl rerun ${id}`,
    options.from_step && `--from ${quoteArgument(options.from_step)}`,
    options.from_iteration !== undefined && `--iteration ${options.from_iteration}`,
    options.version !== undefined && `--version ${options.version}`,
    options.payload && `--input ${quoteArgument(JSON.stringify(options.payload))}`,
  ]
    .filter(Boolean)
    .join(" ");
}
