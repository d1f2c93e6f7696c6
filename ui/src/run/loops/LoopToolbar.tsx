// What the loops tab shows: the loop, its run, the range of iterations, and the color of cells.
import type { GraphStep, LoopCells } from "../../api/types";
import { Button, IconButton } from "../../parts/Button";
import { CopyIcon } from "../../parts/copy";
import { useRun } from "../context";
import { withoutKeys } from "../runView";
import { formatCount, formatRanges, type CellColumn, type IterationRange } from "./cells";

const columnNames: Record<CellColumn, string> = { status: "Status", duration: "Duration", attempts: "Attempts" };

interface LoopToolbarProps {
  step: GraphStep;
  loops: GraphStep[];
  cells: LoopCells | undefined;
  range: IterationRange | undefined;
}

export function LoopToolbar({ step, loops, cells, range }: LoopToolbarProps) {
  const { view, setView } = useRun();
  const by = view.by ?? "status";
  const openLoop = (loop: string) =>
    setView((current) => ({ ...withoutKeys(current, "run", "range", "marked"), loop }));
  const setBy = (next: CellColumn) =>
    setView((current) => ({ ...withoutKeys(current, "by"), ...(next === "status" ? {} : { by: next }) }), true);
  return (
    <div className="tab-bar">
      {loops.length > 1 ? (
        <select
          className="input"
          aria-label="Loop"
          value={step.step}
          onChange={(event) => openLoop(event.target.value)}
        >
          {loops.map((loop) => (
            <option key={loop.step} value={loop.step}>
              {loop.step}
            </option>
          ))}
        </select>
      ) : (
        <span className="mono">{step.step}</span>
      )}
      {cells && cells.runs.length > 1 && <RunSelect cells={cells} />}
      {cells && <RangeLinks cells={cells} range={range} />}
      <span className="grow" />
      <span className="muted" id="cell-color">
        Color
      </span>
      <div className="segments" role="group" aria-labelledby="cell-color">
        {(Object.keys(columnNames) as CellColumn[]).map((name) => (
          <Button key={name} isSmall aria-pressed={by === name} onClick={() => setBy(name)}>
            {columnNames[name]}
          </Button>
        ))}
      </div>
      <CopyIcon text={window.location.href} what="the link to this view" />
    </div>
  );
}

function RunSelect({ cells }: { cells: LoopCells }) {
  const { setView } = useRun();
  return (
    <select
      className="input"
      aria-label="Run of the step"
      value={cells.run}
      onChange={(event) =>
        setView((current) => ({ ...withoutKeys(current, "range", "marked"), run: Number(event.target.value) }))
      }
    >
      {cells.runs.map((run) => (
        <option key={run} value={run}>
          run {run}
        </option>
      ))}
    </select>
  );
}

function RangeLinks({ cells, range }: { cells: LoopCells; range: IterationRange | undefined }) {
  const { setView } = useRun();
  const open = (next: IterationRange | null) =>
    setView((current) => ({ ...withoutKeys(current, "range"), ...(next ? { range: formatRanges([next]) } : {}) }));
  const total = `${formatCount(cells.total)} ${cells.total === 1 ? "iteration" : "iterations"}`;
  if (!range) {
    return (
      <span className="muted">
        {total}
        {cells.may_grow && " so far"}
        {cells.cell_size > 1 && `, ${formatCount(cells.cell_size)} in a cell`}
      </span>
    );
  }
  const size = range.last - range.first + 1;
  const move = (distance: number) => {
    const first = Math.max(0, Math.min(range.first + distance, cells.total - 1));
    open({ first, last: Math.min(first + size, cells.total) - 1 });
  };
  return (
    <span className="row">
      <button type="button" className="link" onClick={() => open(null)}>
        All {total}
      </button>
      <span className="muted">›</span>
      <IconButton
        isSmall
        icon="left"
        label="Earlier iterations"
        disabled={range.first === 0}
        onClick={() => move(-size)}
      />
      <span>
        {formatCount(cells.from)} to {formatCount(Math.max(cells.from, cells.to - 1))}
      </span>
      <IconButton
        isSmall
        icon="right"
        label="Later iterations"
        disabled={range.last + 1 >= cells.total}
        onClick={() => move(size)}
      />
    </span>
  );
}
