// Shows what an action would do to the selected runs, applies it, and shows the result.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { previewBulkAction } from "../api/actions";
import type { BulkAction, BulkPreview, BulkResult, RunFilterParams } from "../api/types";
import { countRuns, formatCount } from "../lib/count";
import { Button } from "../parts/Button";
import { Modal } from "../parts/Modal";
import { ProblemNote } from "../parts/ProblemNote";
import { StatusMark } from "../parts/StatusMark";
import { applyToAll, summarizeResults } from "./bulk";

interface BulkDialogProps {
  action: BulkAction;
  params: RunFilterParams;
  /** The selected runs; null for all that match. */
  ids: string[] | null;
  onClose: () => void;
}

const words = {
  retry: { title: "Retry runs", verb: "Retry", text: "Failed steps run again, in the same runs." },
  rerun: { title: "Rerun runs", verb: "Rerun", text: "Each run starts again as a new run with the same inputs." },
  cancel: { title: "Cancel runs", verb: "Cancel", text: "Running tasks are stopped. Child runs are cancelled too." },
} as const;

export function BulkDialog({ action, params, ids, onClose }: BulkDialogProps) {
  const { title, verb, text } = words[action];
  const client = useQueryClient();
  const [key] = useState(() => crypto.randomUUID());
  const [results, setResults] = useState<BulkResult[]>([]);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const preview = useQuery({
    queryKey: ["bulk preview", key],
    queryFn: () => previewBulkAction(action, params, ids ?? []),
    staleTime: Infinity,
    gcTime: 0,
  });
  const apply = useMutation({
    mutationFn: (previewed: string[]) =>
      applyToAll({ action, key, ids: previewed, onProgress: setResults, signal: stop.current.signal }),
    onSettled: async () => {
      await Promise.all([
        client.invalidateQueries({ queryKey: ["runs"] }),
        client.invalidateQueries({ queryKey: ["facets"] }),
      ]);
    },
  });
  const applicable = preview.data?.execution_ids ?? [];
  const start = () => {
    stop.current = new AbortController();
    apply.mutate(applicable);
  };
  return (
    <Modal
      title={title}
      description={text}
      onClose={onClose}
      foot={
        apply.isSuccess ? (
          <Button look="primary" onClick={onClose}>
            Close
          </Button>
        ) : apply.isPending ? (
          <Button onClick={() => stop.current.abort()}>Stop</Button>
        ) : (
          <>
            <Button onClick={onClose}>Do nothing</Button>
            <Button
              look={action === "cancel" ? "danger" : "primary"}
              disabled={applicable.length === 0}
              onClick={start}
            >
              {verb} {countRuns(applicable.length)}
            </Button>
          </>
        )
      }
    >
      {preview.isPending && <p className="muted">Counting runs…</p>}
      {preview.error && <ProblemNote error={preview.error} onRetry={() => void preview.refetch()} />}
      {preview.data && !apply.isSuccess && <PreviewTable preview={preview.data} verb={verb} />}
      <div role="status">
        {apply.isPending && (
          <p>
            {formatCount(results.length)} of {countRuns(applicable.length)}
          </p>
        )}
        {apply.isSuccess && <ResultTable results={apply.data} total={applicable.length} verb={verb} />}
      </div>
      {apply.error && <ProblemNote error={apply.error} onRetry={start} />}
    </Modal>
  );
}

function PreviewTable({ preview, verb }: { preview: BulkPreview; verb: string }) {
  return (
    <div className="bulk-counts">
      <p>
        {verb} applies to <strong>{formatCount(preview.execution_ids.length)}</strong> of {countRuns(preview.total)}.
        {!preview.is_complete && " More runs match; only the newest are included."}
      </p>
      <ul>
        {preview.statuses.map(({ value, count }) => (
          <li key={value}>
            <StatusMark status={value} /> {formatCount(count)}
          </li>
        ))}
      </ul>
      {preview.refusals.map(({ code, detail, count }) => (
        <p key={code} className="muted">
          {countRuns(count)} left out: {detail}
        </p>
      ))}
      <p className="muted">Runs that start from now on are not included.</p>
    </div>
  );
}

function ResultTable({ results, total, verb }: { results: BulkResult[]; total: number; verb: string }) {
  const { done, refused } = summarizeResults(results);
  return (
    <div className="bulk-counts">
      <p>
        {verb}: <strong>{formatCount(done)}</strong> of {countRuns(total)} done.
        {results.length < total && ` Stopped before ${countRuns(total - results.length)}.`}
      </p>
      {refused.map(({ code, detail, count }) => (
        <p key={code}>
          {countRuns(count)} refused: {detail} <span className="mono muted">{code}</span>
        </p>
      ))}
    </div>
  );
}
