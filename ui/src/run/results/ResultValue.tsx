// One result: its reference, and its value. A large value is read only when it is asked for.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { resultBodyQuery, resultUrl } from "../../api/queries";
import type { Json, ReferenceEntry } from "../../api/types";
import { formatBytes } from "../../lib/json";
import { formatUtc } from "../../lib/time";
import { Button } from "../../parts/Button";
import { CopyIcon } from "../../parts/copy";
import { JsonTree } from "../../parts/JsonTree";
import { ProblemNote } from "../../parts/ProblemNote";
import { useRun } from "../context";
import { JsonView } from "./JsonView";
import { readReference } from "./resultKey";

const readAtOnceBytes = 256 * 1024;

export function ResultValue({ entry }: { entry: ReferenceEntry }) {
  const { detail, setView } = useRun();
  const [isWanted, setIsWanted] = useState(entry.bytes <= readAtOnceBytes);
  const { data, error, refetch, isFetching } = useQuery({
    ...resultBodyQuery(resultUrl(detail.execution_id, entry)),
    enabled: isWanted,
  });
  const reference = readReference(entry);
  const value = readResult(data);
  return (
    <>
      <dl className="facts">
        <dt>Recorded</dt>
        <dd>
          {formatUtc(entry.created_at)}{" "}
          <button
            type="button"
            className="link"
            onClick={() => setView((view) => ({ ...view, tab: "events", seq: entry.seq }))}
          >
            event {entry.seq}
          </button>
        </dd>
        <dt>Size</dt>
        <dd>{formatBytes(entry.bytes)}</dd>
        {reference && (
          <>
            <dt>Address</dt>
            <dd className="row">
              <span className="mono break">{reference.address}</span>
              <CopyIcon text={reference.address} what="the noetl:// address" />
            </dd>
            {reference.store && (
              <>
                <dt>Stored in</dt>
                <dd>
                  {reference.store}
                  {reference.scope && <span className="muted">, for the {reference.scope}</span>}
                </dd>
              </>
            )}
            {reference.sha256 && (
              <>
                <dt>SHA-256</dt>
                <dd className="mono break">{reference.sha256}</dd>
              </>
            )}
          </>
        )}
      </dl>
      {error && <ProblemNote error={error} onRetry={() => void refetch()} />}
      {!isWanted && <Button onClick={() => setIsWanted(true)}>Load {formatBytes(entry.bytes)}</Button>}
      {value === undefined && reference?.sample !== undefined && (
        <>
          <h2>Start of the value</h2>
          <JsonTree value={reference.sample} />
        </>
      )}
      {isFetching && data === undefined && <p className="muted">Loading…</p>}
      {value !== undefined && (
        <JsonView value={value} name={`${detail.execution_id}-${entry.step}-${entry.seq}.json`} />
      )}
    </>
  );
}

/** The result inside the response that names its run and step. */
function readResult(body: Json | undefined): Json | undefined {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined;
  return body["result"];
}
