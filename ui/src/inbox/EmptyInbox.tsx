// What the inbox shows if nothing waits: how a playbook asks for a decision.
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";

const example = `- step: approval
  tool:
    kind: wait
    approval: { title: Raise the limit? }
    timeout: 24h`;

const command = "noetl run approval.yaml --detach";

export function EmptyInbox({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered) {
    return (
      <div className="notice panel">
        <h2>Nothing that matches waits</h2>
        <Button onClick={onClear}>Clear the filters</Button>
      </div>
    );
  }
  return (
    <div className="notice panel">
      <h2>Nothing waits for a decision</h2>
      <p>A run appears here while one of its steps waits for an approval or a signal, such as this one:</p>
      <pre tabIndex={0}>{example}</pre>
      <p>Start a run of a playbook with such a step:</p>
      <pre tabIndex={0}>{command}</pre>
      <CopyButton text={command} what="the command">
        Copy
      </CopyButton>
    </div>
  );
}
