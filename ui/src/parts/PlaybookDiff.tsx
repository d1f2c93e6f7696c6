// What differs between two versions of a playbook, as the server compares them: one entry for each change.
import { Link } from "@tanstack/react-router";
import type { DiffChange, DiffLine, DiffText, PlaybookDiff } from "../api/types";
import "./diff.css";

const kinds: Record<DiffChange["kind"], { sign: string; word: string }> = {
  added: { sign: "+", word: "added" },
  removed: { sign: "−", word: "removed" },
  changed: { sign: "~", word: "changed" },
  reordered: { sign: "⇅", word: "reordered" },
};

export function DiffView({ diff }: { diff: PlaybookDiff }) {
  if (diff.changes.length === 0) {
    return (
      <p className="notice muted">
        {diff.is_same_text
          ? "Both versions have the same text."
          : "Both versions do the same. Only comments, layout or spelling differ."}
      </p>
    );
  }
  return (
    <>
      <ul className="diff" aria-label="Changes">
        {diff.changes.map((change, index) => (
          <Change key={index} change={change} diff={diff} />
        ))}
      </ul>
      {!diff.is_complete && <p className="notice muted">There are more changes. Compare the texts of both versions.</p>}
    </>
  );
}

function Change({ change, diff }: { change: DiffChange; diff: PlaybookDiff }) {
  const { sign, word } = kinds[change.kind];
  return (
    <li className={`diff-change diff-${change.kind}`}>
      <p className="row diff-head">
        <span className="diff-kind">
          <span aria-hidden="true">{sign}</span> {word}
        </span>
        <span className="mono diff-path">{change.path}</span>
        <span className="grow" />
        <span className="diff-lines">
          <LineLink diff={diff} text={change.before} version={diff.from} />
          {change.before && change.after && <span className="muted"> → </span>}
          <LineLink diff={diff} text={change.after} version={diff.to} />
        </span>
      </p>
      {change.lines.length > 0 ? (
        <pre className="diff-text">
          {change.lines.map((line, index) => (
            <TextLine key={index} line={line} />
          ))}
        </pre>
      ) : (
        <pre className="diff-text">
          <Value kind="removed" value={change.before} />
          <Value kind="added" value={change.after} />
        </pre>
      )}
    </li>
  );
}

/** Leads to the line in the source of the version. */
function LineLink({ diff, text, version }: { diff: PlaybookDiff; text: DiffText | null; version: number | null }) {
  if (!text || version === null) return null;
  return (
    <Link
      to="/playbooks/$path"
      params={{ path: diff.path }}
      search={{ tab: "source", version, line: text.line }}
      className="muted diff-line"
    >
      v{version}:{text.line}
    </Link>
  );
}

const signs: Record<DiffLine["kind"], string> = { equal: " ", removed: "−", added: "+", omitted: "…" };

function TextLine({ line }: { line: DiffLine }) {
  if (line.kind === "omitted") return <span className="diff-omitted">… {line.text} lines</span>;
  return (
    <span className={`diff-${line.kind}-line`}>
      {signs[line.kind]} {line.text}
      {line.kind !== "equal" && <span className="visually-hidden"> ({line.kind})</span>}
    </span>
  );
}

function Value({ kind, value }: { kind: "removed" | "added"; value: DiffText | null }) {
  if (!value) return null;
  const lines = value.text.split("\n");
  return (
    <>
      {lines.map((text, index) => (
        <TextLine key={index} line={{ kind, text }} />
      ))}
      {value.is_truncated && <span className="diff-omitted">… the rest is in the source</span>}
    </>
  );
}
