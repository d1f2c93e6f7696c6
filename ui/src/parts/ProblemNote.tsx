// A failed request: code, detail and remedy, as the CLI prints them, and a way to try again.
import { toApiError } from "../api/problem";
import { Button } from "./Button";

interface ProblemNoteProps {
  error: unknown;
  onRetry?: () => void;
}

export function ProblemNote({ error, onRetry }: ProblemNoteProps) {
  const { code, detail, remedy, diagnostics } = toApiError(error);
  return (
    <div className="notice problem" role="alert">
      <span className="problem-code">{code}</span>
      <p>{detail}</p>
      {diagnostics.length > 1 && (
        <ul>
          {diagnostics.map((diagnostic, index) => (
            <li key={index} className="mono">
              {diagnostic.code} {diagnostic.line && `line ${diagnostic.line}: `}
              {diagnostic.message}
            </li>
          ))}
        </ul>
      )}
      {remedy && <p className="muted">{remedy}</p>}
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}
