// Errors and warnings of a text, as the CLI prints them. A click leads to the line; the code explains itself.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { languageQuery } from "../api/queries";
import type { Diagnostic } from "../api/types";
import { MarkIcon } from "../parts/StatusMark";
import "./problems.css";

interface ProblemListProps {
  diagnostics: Diagnostic[];
  /** Null while the text is not checked. */
  isValid: boolean | null;
  onPick: (line: number, column: number) => void;
}

export function ProblemList({ diagnostics, isValid, onPick }: ProblemListProps) {
  const [explained, setExplained] = useState<string | null>(null);
  if (isValid === null) return null;
  if (diagnostics.length === 0) {
    return (
      <p className="row tone-done" role="status">
        <MarkIcon mark="done" /> No problems found
      </p>
    );
  }
  return (
    <ul className="diagnostics" aria-label="Problems">
      {diagnostics.slice(0, shownMax).map((diagnostic, index) => (
        <li key={index}>
          <div className="diagnostic-row">
            <button
              type="button"
              className="diagnostic"
              onClick={() => onPick(diagnostic.line ?? 1, diagnostic.column ?? 1)}
            >
              <MarkIcon mark={diagnostic.severity === "error" ? "failed" : "waiting"} />
              <span className="visually-hidden">{diagnostic.severity}</span>
              <span className="mono muted">
                {diagnostic.line}:{diagnostic.column}
              </span>
              <span className="grow">
                {diagnostic.message}
                {diagnostic.label && <span className="muted"> {diagnostic.label}</span>}
              </span>
            </button>
            <button
              type="button"
              className="link mono"
              aria-expanded={explained === diagnostic.code}
              aria-label={`Explain ${diagnostic.code}`}
              onClick={() => setExplained(explained === diagnostic.code ? null : diagnostic.code)}
            >
              {diagnostic.code}
            </button>
          </div>
          {explained === diagnostic.code && <Explanation diagnostic={diagnostic} />}
        </li>
      ))}
      {diagnostics.length > shownMax && (
        <li className="diagnostic-more muted">{diagnostics.length - shownMax} more problems are not shown.</li>
      )}
    </ul>
  );
}

/** Beyond this number, problems are only counted. */
const shownMax = 200;

/** What `noetl explain` prints for the code, and the help of the problem itself. */
function Explanation({ diagnostic }: { diagnostic: Diagnostic }) {
  const { data } = useQuery(languageQuery);
  const entry = data?.diagnostic_codes.find((candidate) => candidate.code === diagnostic.code);
  return (
    <div className="diagnostic-explanation">
      {entry && (
        <p>
          {entry.meaning} {entry.remedy}
        </p>
      )}
      {diagnostic.help?.map((line) => (
        <p key={line} className="muted">
          {line}
        </p>
      ))}
    </div>
  );
}
