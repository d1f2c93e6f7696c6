// Draws the cells of a heatmap. Shapes tell statuses apart where cells are large enough; the words are in the tooltip.
import type { IterationStatus, LoopCells } from "../../api/types";
import { levelBounds, levelOf, statusOfCell, type CellColumn } from "./cells";
import { positionOf, type HeatmapLayout } from "./heatmapLayout";

/** Colors as the browser computes them, for the theme that is in use. */
export interface Palette {
  statuses: Record<IterationStatus, string>;
  levels: string[];
  none: string;
  panel: string;
  text: string;
}

export const statusVariables: Record<IterationStatus, string> = {
  success: "color-mix(in srgb, var(--success) 55%, var(--panel))",
  waiting: "color-mix(in srgb, var(--waiting) 45%, var(--panel))",
  running: "var(--running)",
  retrying: "var(--retrying)",
  cancelled: "var(--cancelled)",
  error: "var(--failed)",
};

/** Reads colors through an element, because a canvas does not know variables. */
export function readPalette(probe: HTMLElement): Palette {
  const read = (color: string) => {
    probe.style.color = color;
    return getComputedStyle(probe).color;
  };
  const statuses = Object.entries(statusVariables).map(([status, color]) => [status, read(color)]);
  return {
    statuses: Object.fromEntries(statuses) as Record<IterationStatus, string>,
    levels: [22, 40, 58, 78, 100].map((share) => read(`color-mix(in srgb, var(--running) ${share}%, var(--panel))`)),
    none: read("var(--border)"),
    panel: read("var(--panel)"),
    text: read("var(--text)"),
  };
}

interface Drawing {
  cells: LoopCells;
  layout: HeatmapLayout;
  by: CellColumn;
  palette: Palette;
}

export function drawCells(canvas: HTMLCanvasElement, { cells, layout, by, palette }: Drawing) {
  const context = prepareCanvas(canvas, layout);
  if (!context) return;
  const bounds = levelBounds(cells, by);
  const side = layout.size - layout.gap;
  for (let cell = 0; cell < cells.statuses.length; cell += 1) {
    const { x, y } = positionOf(layout, cell);
    if (by === "status") {
      drawStatus(context, statusOfCell(cells, cell), { x, y, side }, palette);
    } else {
      const value = by === "duration" ? cells.durations_us?.[cell] : cells.attempts?.[cell];
      const level = levelOf(value, bounds);
      context.fillStyle = palette.levels[level] ?? palette.none;
      const height = level < 0 ? Math.max(1, Math.floor(side / 3)) : side;
      context.fillRect(x, y + side - height, side, height);
    }
  }
}

function prepareCanvas(canvas: HTMLCanvasElement, layout: HeatmapLayout): CanvasRenderingContext2D | null {
  const ratio = window.devicePixelRatio || 1;
  const width = layout.columns * layout.size;
  const height = layout.rows * layout.size;
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context?.scale(ratio, ratio);
  return context;
}

interface Square {
  x: number;
  y: number;
  side: number;
}

function drawStatus(
  context: CanvasRenderingContext2D,
  status: IterationStatus,
  { x, y, side }: Square,
  palette: Palette,
) {
  context.fillStyle = palette.statuses[status];
  context.fillRect(x, y, side, side);
  if (side < 6 || status === "success") return;
  context.fillStyle = palette.panel;
  context.strokeStyle = palette.panel;
  context.lineWidth = 1;
  context.beginPath();
  if (status === "waiting") context.fillRect(x + 1, y + 1, side - 2, side - 2);
  else if (status === "running") context.fillRect(x + side / 2 - 1, y + side / 2 - 1, 2, 2);
  else if (status === "cancelled") context.fillRect(x + 1, y + side / 2 - 0.5, side - 2, 1);
  else {
    context.moveTo(x + 1.5, y + side - 1.5);
    context.lineTo(x + side - 1.5, y + 1.5);
    if (status === "error") {
      context.moveTo(x + 1.5, y + 1.5);
      context.lineTo(x + side - 1.5, y + side - 1.5);
    }
    context.stroke();
  }
}

/** Draws a frame around marked cells and the cell under the cursor. */
export function drawMarks(
  canvas: HTMLCanvasElement,
  layout: HeatmapLayout,
  { marked, cursor, color }: { marked: Iterable<number>; cursor: number | null; color: string },
) {
  const context = prepareCanvas(canvas, layout);
  if (!context) return;
  context.strokeStyle = color;
  context.fillStyle = color;
  for (const cell of marked) {
    const { x, y } = positionOf(layout, cell);
    context.globalAlpha = 0.35;
    context.fillRect(x, y, layout.size - layout.gap, layout.size - layout.gap);
  }
  context.globalAlpha = 1;
  if (cursor !== null) {
    const { x, y } = positionOf(layout, cursor);
    const side = Math.max(layout.size, 6);
    context.lineWidth = 2;
    context.strokeRect(x - 1 + (layout.size - side) / 2, y - 1 + (layout.size - side) / 2, side + 1, side + 1);
  }
}
