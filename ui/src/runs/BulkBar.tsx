// What can be done with the selected runs.
import type { BulkAction } from "../api/types";
import { Button } from "../parts/Button";
import { formatCount } from "../lib/count";

interface BulkBarProps {
  count: number;
  isAll: boolean;
  /** Number of runs that match the filter; null if it is not known or not all are counted. */
  matching: number | null;
  onSelectAll: () => void;
  onClear: () => void;
  onAction: (action: BulkAction) => void;
}

export function BulkBar({ count, isAll, matching, onSelectAll, onClear, onAction }: BulkBarProps) {
  const all = matching === null ? "all matching runs" : `all ${formatCount(matching)} matching`;
  return (
    <div className="bulk-bar panel" role="toolbar" aria-label="Selected runs">
      <strong>{isAll ? `Selected ${all}` : `${formatCount(count)} selected`}</strong>
      {!isAll && (matching === null || matching > count) && (
        <Button isSmall look="quiet" onClick={onSelectAll}>
          Select {all}
        </Button>
      )}
      <span className="grow" />
      <Button isSmall onClick={() => onAction("retry")}>
        Retry failed…
      </Button>
      <Button isSmall onClick={() => onAction("rerun")}>
        Rerun…
      </Button>
      <Button isSmall look="danger" onClick={() => onAction("cancel")}>
        Cancel…
      </Button>
      <Button isSmall look="quiet" onClick={onClear}>
        Clear selection
      </Button>
    </div>
  );
}
