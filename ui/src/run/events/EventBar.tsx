// The controls above the events: type, go to a number, follow, export.
import { useState } from "react";
import { readEventPage } from "../../api/queries";
import { Button, IconButton } from "../../parts/Button";
import { saveFile } from "../../parts/saveFile";
import { showFailure } from "../../parts/toasts";
import { useRun } from "../context";
import { eventTypes } from "./eventTypes";

interface EventBarProps {
  base: number;
  count: number;
  isFollowed: boolean;
  onFollow: () => void;
}

const exportPage = 1000;

export function EventBar({ base, count, isFollowed, onFollow }: EventBarProps) {
  const { detail, log, view, setView } = useRun();
  const isPart = !view.type && count < log.length;
  const [isExporting, setIsExporting] = useState(false);

  const setType = (type: string) =>
    setView((current) => {
      const next = { ...current };
      delete next.type;
      delete next.seq;
      return type ? { ...next, type } : next;
    }, true);
  const save = async () => {
    setIsExporting(true);
    try {
      saveFile(
        `${detail.execution_id}.ndjson`,
        await readAllEvents(detail.execution_id, view.type),
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
      <select
        className="input"
        aria-label="Type of events"
        value={view.type ?? ""}
        onChange={(event) => setType(event.target.value)}
      >
        <option value="">All types</option>
        {eventTypes.map((type) => (
          <option key={type}>{type}</option>
        ))}
      </select>
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
        {(isPart ? log.length : count).toLocaleString("en")} {view.type ? "loaded" : "events"}
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

async function readAllEvents(id: string, type: string | undefined): Promise<string> {
  const parts: string[] = [];
  let after: number | null = 0;
  while (after !== null) {
    const query: { after_seq: number; limit: number } = { after_seq: after, limit: exportPage };
    const page: Awaited<ReturnType<typeof readEventPage>> = await readEventPage(id, {
      ...query,
      ...(type ? { type } : {}),
    });
    parts.push(...page.events.map((event) => `${JSON.stringify(event)}\n`));
    after = page.nextAfterSeq;
  }
  return parts.join("");
}
