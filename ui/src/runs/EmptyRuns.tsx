// What the list shows without runs: the commands that fill it, or a way out of the filter.
import { baseUrl } from "../api/client";
import type { RunFilter } from "../lib/filter";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";

const commands = [
  `export NOETL_SERVER=${baseUrl.href.replace(/\/$/, "")}`,
  "noetl init hello && cd hello",
  "noetl run hello.yaml",
].join("\n");

export function EmptyRuns({ filter, onClear }: { filter: RunFilter; onClear: () => void }) {
  if (Object.keys(filter).length > 0) {
    return (
      <div className="notice panel">
        <p>No run matches the filter.</p>
        <Button onClick={onClear}>Clear the filter</Button>
      </div>
    );
  }
  return (
    <div className="notice panel">
      <h2>No runs yet</h2>
      <p>Start one on the page of a playbook, or from a terminal:</p>
      <pre>{commands}</pre>
      <CopyButton text={commands} what="the commands">
        Copy
      </CopyButton>
    </div>
  );
}
