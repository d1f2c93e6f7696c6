// JSON values as text, tree rows and table columns.
import type { Json } from "../api/types";

/** A value on one line, shortened: `{id: 7, bad: [7, 13]}`. */
export function previewJson(value: Json | undefined, lengthMax = 160): string {
  if (value === undefined) return "";
  const text = writePreview(value, lengthMax);
  return text.length > lengthMax ? `${text.slice(0, lengthMax - 1)}…` : text;
}

function writePreview(value: Json, budget: number): string {
  if (typeof value === "string") return JSON.stringify(value.length > budget ? value.slice(0, budget) : value);
  if (value === null || typeof value !== "object") return String(value);
  const isList = Array.isArray(value);
  const parts: string[] = [];
  let length = 0;
  for (const [key, entry] of Object.entries(value)) {
    if (length > budget) break;
    const part = isList ? writePreview(entry, budget) : `${key}: ${writePreview(entry, budget)}`;
    parts.push(part);
    length += part.length + 2;
  }
  return isList ? `[${parts.join(", ")}]` : `{${parts.join(", ")}}`;
}

export interface TreeRow {
  /** Position in the value: keys joined by `/`; unique in the tree. */
  path: string;
  name: string;
  depth: number;
  value: Json;
  /** Number of entries of a list or map; null for a leaf. */
  size: number | null;
}

/** The rows of a tree in which the given paths are open. */
export function listTreeRows(root: Json, openPaths: ReadonlySet<string>): TreeRow[] {
  const rows: TreeRow[] = [];
  const visit = (value: Json, name: string, path: string, depth: number) => {
    const size = value !== null && typeof value === "object" ? Object.keys(value).length : null;
    rows.push({ path, name, depth, value, size });
    if (size === null || !openPaths.has(path) || value === null) return;
    for (const [key, entry] of Object.entries(value)) {
      visit(entry, key, `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, depth + 1);
    }
  };
  visit(root, "", "", 0);
  return rows;
}

/** The paths of lists and maps down to a depth, for a tree that opens with a part of it visible. */
export function listOpenPaths(root: Json, depthMax: number, entriesMax = 100): Set<string> {
  const paths = new Set<string>();
  let level: [string, Json][] = [["", root]];
  for (let depth = 0; depth < depthMax; depth += 1) {
    const next: [string, Json][] = [];
    for (const [path, value] of level) {
      if (value === null || typeof value !== "object" || paths.size >= entriesMax) continue;
      paths.add(path);
      for (const [key, entry] of Object.entries(value)) {
        next.push([`${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, entry]);
      }
    }
    level = next;
  }
  return paths;
}

export interface JsonTable {
  columns: string[];
  rows: Json[][];
}

/** A list as a table: one column for each key of its maps, or a single column. */
export function toTable(value: Json, rowsMax = 1000): JsonTable | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const rows = value.slice(0, rowsMax);
  const keys = new Set<string>();
  for (const row of rows) {
    if (row !== null && typeof row === "object" && !Array.isArray(row))
      Object.keys(row).forEach((key) => keys.add(key));
  }
  if (keys.size === 0) return { columns: ["value"], rows: rows.map((row) => [row]) };
  const columns = [...keys];
  return {
    columns,
    rows: rows.map((row) =>
      row !== null && typeof row === "object" && !Array.isArray(row)
        ? columns.map((column) => row[column] ?? null)
        : [row],
    ),
  };
}

/** Bytes as people read them. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let size = bytes / 1024;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}
