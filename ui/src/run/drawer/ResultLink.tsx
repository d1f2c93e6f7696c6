// Where the result of the selected attempt is stored, with its address.
import { useInfiniteQuery } from "@tanstack/react-query";
import { resultListQuery } from "../../api/queries";
import { formatBytes } from "../../lib/json";
import { CopyIcon } from "../../parts/copy";
import { useRun } from "../context";
import { formatResultKey, readReference } from "../results/resultKey";
import type { Selection } from "../runView";
import type { Attempt } from "../taskRuns";
import { useCursor } from "../time/cursor";
import { Section } from "./Section";

interface ResultLinkProps {
  selection: Selection;
  attempt: Attempt | undefined;
}

export function ResultLink({ selection, attempt }: ResultLinkProps) {
  const { detail, setView } = useRun();
  const { step, task, iteration } = selection;
  const at = useCursor();
  const query = {
    step,
    ...(task === undefined ? {} : { task }),
    ...(iteration === undefined ? {} : { iteration }),
    ...(at === undefined ? {} : { until_seq: at }),
  };
  const { data } = useInfiniteQuery(resultListQuery(detail.execution_id, query));
  const results = data?.pages.flatMap((page) => page.results) ?? [];
  const entry = results.find((candidate) => candidate.attempt === attempt?.number);
  if (!entry) return null;
  const address = readReference(entry)?.address;
  return (
    <Section title="Stored result">
      <p className="row">
        <button
          type="button"
          className="link"
          onClick={() => setView((view) => ({ ...view, tab: "results", result: formatResultKey(entry) }))}
        >
          Open result
        </button>
        <span className="muted">{formatBytes(entry.bytes)}</span>
        {address && <CopyIcon text={address} what="the noetl:// address" />}
      </p>
    </Section>
  );
}
