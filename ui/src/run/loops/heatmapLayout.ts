// Where the cells of a heatmap are. Rows have a round number of cells, so that a row starts at a round index.

export interface HeatmapLayout {
  /** Distance between cells in pixels. */
  size: number;
  /** Space between cells in pixels. */
  gap: number;
  columns: number;
  rows: number;
}

const sizes = [10, 8, 7, 6, 5, 4, 3];

/** The largest cells with which all of them fit; the smallest ones may be higher than that. */
export function layoutHeatmap(count: number, width: number, height: number): HeatmapLayout {
  for (const size of sizes) {
    const columns = roundColumns(Math.max(1, Math.floor(width / size)));
    const rows = Math.ceil(count / columns);
    if (rows * size <= height || size === sizes.at(-1)) {
      return { size, gap: size >= 5 ? 1 : 0, columns: Math.min(columns, Math.max(1, count)), rows };
    }
  }
  return { size: 3, gap: 0, columns: 1, rows: count };
}

function roundColumns(columns: number): number {
  const unit = columns >= 100 ? 50 : columns >= 20 ? 10 : 1;
  return Math.floor(columns / unit) * unit;
}

/** The cell at a point, or null beside the cells. */
export function cellAt(layout: HeatmapLayout, count: number, x: number, y: number): number | null {
  const column = Math.floor(x / layout.size);
  const row = Math.floor(y / layout.size);
  if (column < 0 || column >= layout.columns || row < 0) return null;
  const cell = row * layout.columns + column;
  return cell < count ? cell : null;
}

/** The top left corner of a cell. */
export function positionOf(layout: HeatmapLayout, cell: number): { x: number; y: number } {
  return { x: (cell % layout.columns) * layout.size, y: Math.floor(cell / layout.columns) * layout.size };
}

/** The cells in the rectangle between two cells. */
export function cellsBetween(layout: HeatmapLayout, count: number, one: number, other: number): number[] {
  const [left, right] = sort(one % layout.columns, other % layout.columns);
  const [top, bottom] = sort(Math.floor(one / layout.columns), Math.floor(other / layout.columns));
  const cells: number[] = [];
  for (let row = top; row <= bottom; row += 1) {
    for (let column = left; column <= right; column += 1) {
      const cell = row * layout.columns + column;
      if (cell < count) cells.push(cell);
    }
  }
  return cells;
}

/** The cell that a key moves to, or null if the key moves nothing. */
export function moveCursor(layout: HeatmapLayout, count: number, cell: number, key: string): number | null {
  const { columns } = layout;
  const steps: Record<string, number> = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -columns,
    ArrowDown: columns,
    PageUp: -10 * columns,
    PageDown: 10 * columns,
    Home: -cell,
    End: count - 1 - cell,
  };
  const step = steps[key];
  if (step === undefined || count === 0) return null;
  const next = cell + step;
  const isVertical = Math.abs(step) >= columns && columns > 1 && (key.startsWith("Arrow") || key.startsWith("Page"));
  if (isVertical && (next < 0 || next >= count)) {
    return key.startsWith("Arrow") ? cell : Math.max(0, Math.min(count - 1, next));
  }
  return Math.max(0, Math.min(count - 1, next));
}

function sort(one: number, other: number): [number, number] {
  return one <= other ? [one, other] : [other, one];
}
