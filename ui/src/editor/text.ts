// Pure parts of the editor: the text of a new playbook, and which step is at a line.
import type { GraphStep } from "../api/types";

/** The text of a new playbook: it is valid, and shows an input, a task and an arc. */
export const starterText = `apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: my_playbook
  path: my/playbook

workload:
  name: Ada

workflow:
  - step: greet
    tool:
      kind: python
      input: { name: "{{ workload.name }}" }
      code: |
        result = {"greeting": f"Hello, {name}"}
    next:
      arcs:
        - step: end

  - step: end
    tool:
      kind: noop
`;

/** The step whose text contains a line: the last one that begins before it. */
export function findStepAt(steps: Pick<GraphStep, "step" | "line">[], line: number): string | undefined {
  return steps.filter((step) => step.line <= line).at(-1)?.step;
}
