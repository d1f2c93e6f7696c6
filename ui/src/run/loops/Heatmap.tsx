// The heatmap: a canvas with one cell for each iteration or range of them. Arrow keys move a cursor, whose cell is read
// out; Enter opens it; Shift or dragging marks cells.
import { useEffect, useMemo, useRef, useState } from "react";
import type { LoopCells } from "../../api/types";
import { usePreferences } from "../../shell/preferences";
import { useRun } from "../context";
import { withoutKeys } from "../runView";
import {
  cellOfIteration,
  describeCell,
  formatCount,
  formatRanges,
  iterationsOfCell,
  joinCells,
  parseRanges,
  type CellColumn,
} from "./cells";
import { drawCells, drawMarks, readPalette } from "./drawCells";
import { cellAt, cellsBetween, layoutHeatmap, moveCursor, positionOf, type HeatmapLayout } from "./heatmapLayout";
import { useIsDark, useWidth } from "./useWidth";

const heightMax = 420;
const axisWidth = 72;
/** Cells that are marked one by one in the URL. */
const markedCellsMax = 5000;

export function Heatmap({ cells, by }: { cells: LoopCells; by: CellColumn }) {
  const { view, setView, select } = useRun();
  const frame = useRef<HTMLDivElement>(null);
  const map = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const count = cells.statuses.length;
  const layout = useMemo(() => layoutHeatmap(count, Math.max(60, width - axisWidth), heightMax), [count, width]);
  const selected = view.step === cells.step && view.iteration !== undefined ? view.iteration : null;
  const [cursor, setCursor] = useState<number | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const anchor = useRef<number | null>(null);
  const marked = useMemo(() => findMarked(cells, view.marked), [cells, view.marked]);
  const current = cursor ?? (selected === null ? 0 : (cellOfIteration(cells, selected) ?? 0));

  const mark = (picked: number[]) => {
    const ranges = formatRanges(joinCells(cells, picked.slice(0, markedCellsMax)));
    setView((before) => ({ ...withoutKeys(before, "marked"), ...(ranges ? { marked: ranges } : {}) }), true);
  };
  const open = (cell: number) => {
    const { first, last } = iterationsOfCell(cells, cell);
    if (first === last) select({ step: cells.step, iteration: first });
    else setView((before) => ({ ...withoutKeys(before, "marked"), range: formatRanges([{ first, last }]) }));
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(current);
      return;
    }
    if (event.key === "Escape" && view.marked !== undefined) {
      event.preventDefault();
      mark([]);
      return;
    }
    const next = moveCursor(layout, count, current, event.key);
    if (next === null) return;
    event.preventDefault();
    if (event.shiftKey) {
      anchor.current ??= current;
      mark(cellsBetween(layout, count, anchor.current, next));
    } else anchor.current = null;
    setCursor(next);
  };
  const drag = useDrag(map, layout, count, {
    onHover: setHovered,
    onClick: (cell, isShift) => {
      if (isShift) mark(cellsBetween(layout, count, current, cell));
      else open(cell);
      setCursor(cell);
    },
    onDrag: (from, to) => mark(cellsBetween(layout, count, from, to)),
  });
  const shown = hovered ?? (cursor === null ? null : current);

  return (
    <div className="heatmap" ref={frame}>
      <RowLabels cells={cells} layout={layout} />
      <div
        ref={map}
        className="heatmap-map"
        role="application"
        aria-roledescription="heatmap"
        aria-label={`Iterations of ${cells.step}`}
        aria-describedby="heatmap-help"
        tabIndex={0}
        data-cursor={current}
        data-columns={layout.columns}
        data-size={layout.size}
        onKeyDown={onKeyDown}
        onFocus={() => setCursor(current)}
        onBlur={() => setCursor(null)}
        {...drag}
      >
        <CellCanvas cells={cells} layout={layout} by={by} />
        <MarkCanvas
          layout={layout}
          marked={marked}
          cursor={cursor === null ? (selected === null ? null : cellOfIteration(cells, selected)) : current}
        />
        {shown !== null && shown < count && <CellTip cells={cells} cell={shown} layout={layout} />}
      </div>
      <p className="visually-hidden" id="heatmap-help">
        Arrow keys move between cells, Enter opens a cell, Shift with arrow keys marks cells, Escape removes the marks.
      </p>
      <p className="visually-hidden" aria-live="polite" data-testid="cell-words">
        {cursor === null || current >= count ? "" : describeCell(cells, current)}
      </p>
    </div>
  );
}

function findMarked(cells: LoopCells, text: string | undefined): Set<number> {
  const marked = new Set<number>();
  for (const { first, last } of parseRanges(text)) {
    const from = cellOfIteration(cells, Math.max(first, cells.from));
    const to = cellOfIteration(cells, Math.min(last, cells.to - 1));
    if (from === null || to === null) continue;
    for (let cell = from; cell <= to; cell += 1) marked.add(cell);
  }
  return marked;
}

function CellCanvas({ cells, layout, by }: { cells: LoopCells; layout: HeatmapLayout; by: CellColumn }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const probe = useRef<HTMLSpanElement>(null);
  const isDark = useIsDark();
  const { theme } = usePreferences();
  useEffect(() => {
    if (canvas.current && probe.current) {
      drawCells(canvas.current, { cells, layout, by, palette: readPalette(probe.current) });
    }
  }, [cells, layout, by, isDark, theme]);
  return (
    <>
      <span ref={probe} hidden />
      <canvas ref={canvas} aria-hidden="true" />
    </>
  );
}

interface MarkCanvasProps {
  layout: HeatmapLayout;
  marked: Set<number>;
  cursor: number | null;
}

function MarkCanvas({ layout, marked, cursor }: MarkCanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (!canvas.current) return;
    const { color } = getComputedStyle(canvas.current);
    drawMarks(canvas.current, layout, { marked, cursor, color });
  }, [layout, marked, cursor]);
  return <canvas ref={canvas} className="heatmap-marks" aria-hidden="true" />;
}

function CellTip({ cells, cell, layout }: { cells: LoopCells; cell: number; layout: HeatmapLayout }) {
  const { x, y } = positionOf(layout, cell);
  const isRight = x > (layout.columns * layout.size) / 2;
  const place = isRight ? { right: layout.columns * layout.size - x } : { left: x + layout.size };
  return (
    <div className="tooltip heatmap-tip" style={{ ...place, top: y + layout.size + 4 }} aria-hidden="true">
      {describeCell(cells, cell)}
    </div>
  );
}

/** The first index of some rows. */
function RowLabels({ cells, layout }: { cells: LoopCells; layout: HeatmapLayout }) {
  const every = Math.max(1, Math.ceil(24 / layout.size));
  const rows = Array.from({ length: Math.ceil(layout.rows / every) }, (_, index) => index * every);
  return (
    <div className="heatmap-axis muted" style={{ width: axisWidth }} aria-hidden="true">
      {rows.map((row) => (
        <span key={row} style={{ top: row * layout.size + layout.size / 2 - 8 }}>
          {formatCount(cells.from + row * layout.columns * cells.cell_size)}
        </span>
      ))}
    </div>
  );
}

interface DragHandlers {
  onHover: (cell: number | null) => void;
  onClick: (cell: number, isShift: boolean) => void;
  onDrag: (from: number, to: number) => void;
}

/** Tells clicks from dragging. */
function useDrag(
  map: React.RefObject<HTMLDivElement | null>,
  layout: HeatmapLayout,
  count: number,
  { onHover, onClick, onDrag }: DragHandlers,
) {
  const start = useRef<number | null>(null);
  const isDragged = useRef(false);
  const find = (event: React.PointerEvent) => {
    const box = map.current?.getBoundingClientRect();
    return box ? cellAt(layout, count, event.clientX - box.left, event.clientY - box.top) : null;
  };
  return {
    onPointerDown: (event: React.PointerEvent) => {
      if (event.button !== 0) return;
      start.current = find(event);
      isDragged.current = false;
    },
    onPointerMove: (event: React.PointerEvent) => {
      const cell = find(event);
      onHover(cell);
      if (start.current === null || cell === null || event.pointerType === "touch") return;
      if (cell === start.current && !isDragged.current) return;
      isDragged.current = true;
      onDrag(start.current, cell);
    },
    onPointerUp: (event: React.PointerEvent) => {
      const cell = find(event);
      if (start.current !== null && cell !== null && !isDragged.current) onClick(cell, event.shiftKey);
      start.current = null;
    },
    onPointerLeave: () => {
      onHover(null);
      start.current = null;
    },
  };
}
