// Why a task failed: code, message, the line of the playbook with its neighbours, and the traceback.
import { useQuery } from "@tanstack/react-query";
import type { TaskError } from "../../api/types";
import { playbookQuery } from "../../api/queries";
import type { JsonObject } from "../../api/types";
import { CopyIcon } from "../../parts/copy";
import { useRun } from "../context";
import { readTraceback } from "../taskRuns";
import { Section } from "./Section";

const linesAround = 2;

export function ErrorDetail({ error, outcome }: { error: TaskError; outcome: JsonObject }) {
  const { setView } = useRun();
  const traceback = readTraceback(outcome);
  const { line } = error;
  return (
    <>
      <Section title="Error">
        <p className="problem-code">{error.code}</p>
        <p className="break">{error.message}</p>
      </Section>
      {line !== undefined && (
        <Section
          title={`Line ${line} of the playbook`}
          extra={
            <button
              type="button"
              className="link"
              onClick={() => setView((view) => ({ ...view, tab: "source", line }))}
            >
              Open in source
            </button>
          }
        >
          <Excerpt line={line} />
        </Section>
      )}
      {traceback && (
        <Section title="Traceback" extra={<CopyIcon text={traceback} what="the traceback" />}>
          <pre className="block" tabIndex={0}>
            {traceback}
          </pre>
        </Section>
      )}
    </>
  );
}

function Excerpt({ line }: { line: number }) {
  const { detail } = useRun();
  const { path, version } = detail.execution;
  const { data } = useQuery(playbookQuery(path, version));
  if (!data?.content) return null;
  const first = Math.max(1, line - linesAround);
  const lines = data.content.split("\n").slice(first - 1, line + linesAround);
  const indent = Math.min(...lines.filter((text) => text.trim()).map((text) => text.search(/\S/)));
  return (
    <pre className="block excerpt" tabIndex={0}>
      {lines.map((text, index) => (
        <span key={index} className="excerpt-line" data-failing={first + index === line || undefined}>
          <span className="muted excerpt-number">{first + index}</span>
          {text.slice(indent)}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
