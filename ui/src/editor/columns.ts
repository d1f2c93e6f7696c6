// Columns: the server counts characters from 1, the browser counts UTF-16 units from 0.

/** The column of the server for an offset in a line. */
export function toCharacterColumn(line: string, offset: number): number {
  return Array.from(line.slice(0, offset)).length + 1;
}

/** The offset in a line for a column of the server. */
export function toUnitColumn(line: string, column: number): number {
  return Array.from(line)
    .slice(0, Math.max(0, column - 1))
    .join("").length;
}
