// The controls above the events: types, selection, go to a number, follow, export.
import { useState } from "react";
import { readEventPage } from "../../api/queries";
import type { EventParams } from "../../api/types";
import { omitUndefined } from "../../lib/search";
import { Button, IconButton } from "../../parts/Button";
import { Icon } from "../../parts/Icon";
import { saveFile } from "../../parts/saveFile";
import { showFailure } from "../../parts/toasts";
import { useRun } from "../context";
import { formatAddress, readSelection, type RunView } from "../runView";
import { useCursor } from "../time/cursor";
import { readTypes, useEventFilter, withTypes } from "./eventFilter";
import { eventTypes } from "./eventTypes";

interface EventBarProps {
  base: number;
  count: number;
  isFiltered: boolean;
  isFollowed: boolean;
  onFollow: () => void;
}

const exportPage = 1000;

export function EventBar({ base, count, isFiltered, isFollowed, onFollow }: EventBarProps) {
  const { detail, log, setView } = useRun();
  const filter = useEventFilter();
  const length = useCursor() ?? log.length;
  const isPart = !isFiltered && count < length;
  const [isExporting, setIsExporting] = useState(false);
  const save = async () => {
    setIsExporting(true);
    try {
      saveFile(
        `${detail.execution_id}.ndjson`,
        await readAllEvents(detail.execution_id, filter ?? {}),
        "application/x-ndjson",
      );
    } catch (error) {
      showFailure("Not exported", error);
    } finally {
      setIsExporting(false);
    }
  };

  return (
    <div className="tab-bar">
      <TypeFilter />
      <SelectionFilter />
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault();
          const seq = Number(new FormData(event.currentTarget).get("seq"));
          if (Number.isInteger(seq) && seq > 0) setView((current) => ({ ...current, seq }));
        }}
      >
        <input
          className="input event-seq"
          name="seq"
          inputMode="numeric"
          aria-label="Go to event"
          placeholder="Go to seq"
        />
      </form>
      <span className="grow" />
      <span className="muted">
        {isPart && `${(base + 1).toLocaleString("en")} to ${(base + count).toLocaleString("en")} of `}
        {(isPart ? length : count).toLocaleString("en")} {isFiltered ? "loaded" : "events"}
      </span>
      <Button isSmall aria-pressed={isFollowed} onClick={onFollow}>
        Follow
      </Button>
      <IconButton
        isSmall
        icon="download"
        label={isExporting ? "Exporting…" : "Export as NDJSON"}
        disabled={isExporting}
        onClick={() => void save()}
      />
    </div>
  );
}

/** The types to show. Choosing one adds it; a button removes it. */
function TypeFilter() {
  const { view, setView } = useRun();
  const types = readTypes(view);
  const setTypes = (next: string[]) => setView((current) => withTypes(current, next), true);
  return (
    <>
      <select
        className="input"
        aria-label="Type of events"
        value=""
        onChange={(event) => event.target.value && setTypes([...types, event.target.value])}
      >
        <option value="">{types.length > 0 ? "Add a type" : "All types"}</option>
        {eventTypes
          .filter((type) => !types.includes(type))
          .map((type) => (
            <option key={type}>{type}</option>
          ))}
      </select>
      {types.map((type) => (
        <Button
          key={type}
          isSmall
          aria-label={`Remove the type ${type}`}
          onClick={() => setTypes(types.filter((other) => other !== type))}
        >
          <span className="mono">{type}</span>
          <Icon name="close" />
        </Button>
      ))}
    </>
  );
}

function SelectionFilter() {
  const { view, setView } = useRun();
  const selection = readSelection(view);
  if (!selection) return null;
  const { step, task, iteration } = selection;
  const address = formatAddress({ step, ...omitUndefined({ task, iteration }) });
  const toggle = () =>
    setView((current) => {
      const next: RunView = { ...current };
      delete next.seq;
      if (next.from) delete next.from;
      else next.from = "selection";
      return next;
    }, true);
  return (
    <Button isSmall aria-pressed={view.from === "selection"} onClick={toggle}>
      Only <span className="mono">{address}</span>
    </Button>
  );
}

async function readAllEvents(id: string, filter: EventParams): Promise<string> {
  const parts: string[] = [];
  let after: number | null = 0;
  while (after !== null) {
    const query: EventParams = { ...filter, after_seq: after, limit: exportPage };
    const page: Awaited<ReturnType<typeof readEventPage>> = await readEventPage(id, query);
    parts.push(...page.events.map((event) => `${JSON.stringify(event)}\n`));
    after = page.nextAfterSeq;
  }
  return parts.join("");
}
