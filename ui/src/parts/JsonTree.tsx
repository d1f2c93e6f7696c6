// A JSON value as a tree that opens and closes, with keyboard support. Long values are cut until they are asked for.
import { useMemo, useState } from "react";
import type { Json } from "../api/types";
import { listOpenPaths, listTreeRows, previewJson, type TreeRow } from "../lib/json";
import { Icon } from "./Icon";
import "./json.css";

const rowsMax = 500;
const textMax = 400;

export function JsonTree({ value, depth = 2 }: { value: Json; depth?: number }) {
  const initial = useMemo(() => listOpenPaths(value, depth), [value, depth]);
  const [changed, setChanged] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [limit, setLimit] = useState(rowsMax);
  const openPaths = useMemo(() => {
    const paths = new Set(initial);
    for (const [path, isOpen] of changed) {
      if (isOpen) paths.add(path);
      else paths.delete(path);
    }
    return paths;
  }, [initial, changed]);
  const rows = useMemo(() => listTreeRows(value, openPaths), [value, openPaths]);
  const toggle = (path: string) => setChanged((map) => new Map(map).set(path, !openPaths.has(path)));

  return (
    <div className="json" role="tree" aria-label="Value">
      {rows.slice(0, limit).map((row) => (
        <TreeLine key={row.path} row={row} isOpen={openPaths.has(row.path)} onToggle={() => toggle(row.path)} />
      ))}
      {rows.length > limit && (
        <button type="button" className="link" onClick={() => setLimit(limit * 4)}>
          {rows.length - limit} more rows
        </button>
      )}
    </div>
  );
}

interface TreeLineProps {
  row: TreeRow;
  isOpen: boolean;
  onToggle: () => void;
}

function TreeLine({ row, isOpen, onToggle }: TreeLineProps) {
  const isBranch = row.size !== null && row.size > 0;
  const name = row.name && <span className="json-name">{row.name}: </span>;
  return (
    <div
      className="json-line"
      role="treeitem"
      aria-level={row.depth + 1}
      aria-selected={false}
      {...(isBranch ? { "aria-expanded": isOpen } : {})}
      style={{ paddingLeft: row.depth * 12 }}
    >
      {isBranch ? (
        <button
          type="button"
          className="json-toggle"
          onClick={onToggle}
          aria-label={`${isOpen ? "Close" : "Open"} ${row.name || "value"}`}
        >
          <Icon name={isOpen ? "down" : "right"} />
        </button>
      ) : (
        <span className="json-toggle" />
      )}
      <span className="json-text">
        {name}
        {isBranch && isOpen ? <span className="muted">{describeSize(row)}</span> : <Leaf value={row.value} />}
      </span>
    </div>
  );
}

function Leaf({ value }: { value: Json }) {
  const [isWhole, setIsWhole] = useState(false);
  if (typeof value === "string" && value.length > textMax && !isWhole) {
    return (
      <>
        <span className="json-string">{JSON.stringify(value.slice(0, textMax))}</span>
        <button type="button" className="link" onClick={() => setIsWhole(true)}>
          {value.length - textMax} more characters
        </button>
      </>
    );
  }
  const kind = value === null ? "null" : typeof value;
  return (
    <span className={`json-${kind}`}>{typeof value === "string" ? JSON.stringify(value) : previewJson(value)}</span>
  );
}

function describeSize(row: TreeRow): string {
  const word = Array.isArray(row.value) ? "item" : "key";
  return `${row.size} ${word}${row.size === 1 ? "" : "s"}`;
}
