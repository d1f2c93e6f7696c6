// What a suspended task waits for: a signal, a time or a child run.
import { Link } from "@tanstack/react-router";
import type { Json, JsonObject } from "../../api/types";
import { quoteArgument } from "../../lib/cli";
import { formatUtc } from "../../lib/time";
import { CopyButton } from "../../parts/copy";
import { JsonTree } from "../../parts/JsonTree";
import { useRun } from "../context";
import { Section } from "./Section";

export function WaitSection({ awaits, isOver }: { awaits: Json; isOver: boolean }) {
  const wait = readObject(awaits, "wait");
  const child = readObject(awaits, "child");
  return (
    <Section title={isOver ? "Waited for" : "Waits for"}>
      {wait && <WaitFacts wait={wait} isOver={isOver} />}
      {child && <ChildFacts child={child} />}
      {!wait && !child && <JsonTree value={awaits} />}
    </Section>
  );
}

function WaitFacts({ wait, isOver }: { wait: JsonObject; isOver: boolean }) {
  const { detail } = useRun();
  const { signal, until, times_out: timesOut } = wait;
  return (
    <>
      <dl className="facts">
        {typeof signal === "string" && (
          <>
            <dt>Signal</dt>
            <dd className="mono">{signal}</dd>
          </>
        )}
        {typeof until === "string" && (
          <>
            <dt>{timesOut === true ? "Times out" : "Until"}</dt>
            <dd>{formatUtc(until)}</dd>
          </>
        )}
      </dl>
      {typeof signal === "string" && !isOver && (
        <p className="row">
          <Link to="/inbox" search={{ run: detail.execution_id, signal }}>
            Answer in the inbox
          </Link>
          <CopyButton text={`noetl signal ${detail.execution_id} ${quoteArgument(signal)}`} what="the command">
            Copy the command that sends it
          </CopyButton>
        </p>
      )}
    </>
  );
}

function ChildFacts({ child }: { child: JsonObject }) {
  const { detail } = useRun();
  return (
    <dl className="facts">
      <dt>Child run of</dt>
      <dd>
        <span className="mono">{String(child["path"])}</span>{" "}
        <Link to="/runs" search={{ parent: detail.execution_id }}>
          child runs
        </Link>
      </dd>
    </dl>
  );
}

function readObject(value: Json, key: string): JsonObject | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const entry = value[key];
  return typeof entry === "object" && entry !== null && !Array.isArray(entry) ? entry : null;
}
