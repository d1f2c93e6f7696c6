// The iterations that are marked in the heatmap, and what can be done with them.
import type { LoopCells } from "../../api/types";
import { Button } from "../../parts/Button";
import { copyText } from "../../parts/copy";
import { useRun } from "../context";
import { withoutKeys } from "../runView";
import { countIterations, formatCount, formatRanges, parseRanges } from "./cells";

export function MarkedIterations({ cells }: { cells: LoopCells }) {
  const { view, setView } = useRun();
  const ranges = parseRanges(view.marked);
  const count = countIterations(ranges);
  const first = ranges[0];
  const last = ranges.at(-1);
  if (!first || !last) {
    return <p className="muted">Click a cell to open it. Drag, or press Shift with arrow keys, to mark cells.</p>;
  }
  return (
    <p className="row marked" role="status">
      <span>
        {formatCount(count)} {count === 1 ? "iteration" : "iterations"} marked
      </span>
      <Button isSmall onClick={() => void copyText(formatRanges(ranges), "the indices")}>
        Copy indices
      </Button>
      {last.last - first.first + 1 < cells.to - cells.from && (
        <Button
          isSmall
          onClick={() =>
            setView((current) => ({
              ...withoutKeys(current, "marked"),
              range: formatRanges([{ first: first.first, last: last.last }]),
            }))
          }
        >
          Show only these
        </Button>
      )}
      <Button isSmall look="quiet" onClick={() => setView((current) => withoutKeys(current, "marked"), true)}>
        Clear
      </Button>
    </p>
  );
}
