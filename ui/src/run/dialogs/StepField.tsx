// What a rerun runs again: all steps, or those from a step or an iteration on.
import { useId } from "react";

/** The choice that leads to the retry of failed work. */
export const failedOnly = "(failed)";

interface StepFieldProps {
  steps: string[];
  /** Whether the run has failed work that can be retried. */
  mayRetry: boolean;
  step: string;
  onStep: (step: string) => void;
  /** Index of the first iteration; null if the step is not a loop. */
  iteration: string | null;
  onIteration: (iteration: string) => void;
}

export function StepField({ steps, mayRetry, step, onStep, iteration, onIteration }: StepFieldProps) {
  const stepId = useId();
  const iterationId = useId();
  return (
    <>
      <div className="field">
        <label htmlFor={stepId}>Run again</label>
        <select id={stepId} className="input" value={step} onChange={(event) => onStep(event.target.value)}>
          <option value="">All steps</option>
          {mayRetry && <option value={failedOnly}>Only failed work, in the same run</option>}
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
