// The rows of a list that are selected for an action: single rows, ranges, or all rows that match the filter.

export interface Selection {
  ids: ReadonlySet<string>;
  /** Whether all runs that match the filter are selected, also those that are not loaded. */
  isAll: boolean;
  /** Where a range starts. */
  anchor?: string;
}

export const emptySelection: Selection = { ids: new Set(), isAll: false };

/** Selects or deselects a row, or with `isRange` all rows from the last one that was selected to this one. */
export function toggleRow(selection: Selection, rows: string[], id: string, isRange: boolean): Selection {
  const ids = new Set(selection.isAll ? rows : selection.ids);
  const from = selection.anchor === undefined ? -1 : rows.indexOf(selection.anchor);
  const to = rows.indexOf(id);
  if (isRange && from >= 0 && to >= 0) {
    for (const row of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) ids.add(row);
    return { ids, isAll: false, anchor: id };
  }
  if (!ids.delete(id)) ids.add(id);
  return { ids, isAll: false, anchor: id };
}

/** Selects all rows, or none if all of them are selected. */
export function toggleAllRows(selection: Selection, rows: string[]): Selection {
  return areAllSelected(selection, rows) ? emptySelection : { ids: new Set(rows), isAll: false };
}

export function isSelected(selection: Selection, id: string): boolean {
  return selection.isAll || selection.ids.has(id);
}

export function areAllSelected(selection: Selection, rows: string[]): boolean {
  return rows.length > 0 && rows.every((id) => isSelected(selection, id));
}
