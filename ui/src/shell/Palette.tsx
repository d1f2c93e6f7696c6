// The palette: go to pages and recent runs, and do what the current view offers, from the keyboard.
import * as Dialog from "@radix-ui/react-dialog";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useId, useRef, useState } from "react";
import { catalogQuery, newestRunsQuery } from "../api/queries";
import { lookOf } from "../lib/status";
import { usePaletteGroups } from "./paletteActions";
import { setPreference, usePreferences } from "./preferences";
import { useMay } from "./role";

interface PaletteItem {
  group: string;
  label: string;
  hint: string;
  run: () => void;
}

const runCount = 20;

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [index, setIndex] = useState(0);
  const listId = useId();
  const items = filterItems(useItems(), text);
  const active = Math.min(index, items.length - 1);
  const activeRef = useRef<HTMLLIElement>(null);
  useEffect(() => activeRef.current?.scrollIntoView({ block: "nearest" }), [active]);

  const choose = (item: PaletteItem | undefined) => {
    if (!item) return;
    onClose();
    item.run();
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setIndex((active + step + items.length) % Math.max(1, items.length));
    }
    if (event.key === "Enter") choose(items[active]);
  };

  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        <Dialog.Content className="dialog palette" aria-describedby={undefined}>
          <Dialog.Title className="visually-hidden">Go to or do</Dialog.Title>
          <input
            className="palette-input"
            role="combobox"
            aria-expanded
            aria-controls={listId}
            aria-activedescendant={items[active] ? `${listId}-${active}` : undefined}
            aria-label="Search pages, runs and actions"
            placeholder="Search pages, runs and actions"
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setIndex(0);
            }}
            onKeyDown={onKeyDown}
          />
          <ul className="palette-list" id={listId} role="listbox" aria-label="Results">
            {items.map((item, position) => (
              <li
                key={`${item.group} ${item.label} ${item.hint}`}
                id={`${listId}-${position}`}
                ref={position === active ? activeRef : null}
                role="option"
                aria-selected={position === active}
                className="palette-item"
                onMouseMove={() => setIndex(position)}
                onClick={() => choose(item)}
              >
                <span className="palette-group muted">
                  {item.group === items[position - 1]?.group ? "" : item.group}
                </span>
                <span className="truncate grow">{item.label}</span>
                <span className="muted mono truncate">{item.hint}</span>
              </li>
            ))}
          </ul>
          {items.length === 0 && <p className="palette-empty muted">Nothing matches “{text}”.</p>}
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function useItems(): PaletteItem[] {
  const navigate = useNavigate();
  const { theme, density } = usePreferences();
  const { data: runs } = useQuery(newestRunsQuery({}, runCount));
  const { data: catalog } = useQuery(catalogQuery);
  const actions = usePaletteGroups().flatMap(({ title, entries }) =>
    entries.map((entry) => ({ group: title, label: entry.label, hint: entry.hint ?? "", run: entry.run })),
  );
  const isAdmin = useMay("admin");
  const go = (to: "/" | "/runs" | "/inbox" | "/playbooks" | "/credentials" | "/workers" | "/system") => () =>
    void navigate({ to });
  const otherTheme = theme === "dark" ? "light" : "dark";
  const otherDensity = density === "compact" ? "normal" : "compact";
  return [
    ...actions,
    { group: "Pages", label: "Home", hint: "g h", run: go("/") },
    { group: "Pages", label: "Runs", hint: "g r", run: go("/runs") },
    { group: "Pages", label: "Inbox", hint: "g i", run: go("/inbox") },
    { group: "Pages", label: "Playbooks", hint: "g p", run: go("/playbooks") },
    ...(isAdmin ? [{ group: "Pages", label: "Credentials", hint: "g c", run: go("/credentials") }] : []),
    { group: "Pages", label: "Workers", hint: "g w", run: go("/workers") },
    { group: "Pages", label: "System", hint: "g s", run: go("/system") },
    ...(runs?.executions ?? []).map((run) => ({
      group: "Recent runs",
      label: `${run.path} ${lookOf(run.status).word}`,
      hint: run.execution_id,
      run: () => void navigate({ to: "/runs/$id", params: { id: run.execution_id } }),
    })),
    ...(catalog?.entries ?? []).map((entry) => ({
      group: "Playbooks",
      label: entry.path,
      hint: `version ${entry.version}`,
      run: () => void navigate({ to: "/playbooks/$path", params: { path: entry.path } }),
    })),
    { group: "Look", label: `Use the ${otherTheme} theme`, hint: "", run: () => setPreference("theme", otherTheme) },
    { group: "Look", label: `Use ${otherDensity} rows`, hint: "", run: () => setPreference("density", otherDensity) },
  ];
}

function filterItems(items: PaletteItem[], text: string): PaletteItem[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return items.filter((item) => {
    const target = `${item.group} ${item.label} ${item.hint}`.toLowerCase();
    return words.every((word) => target.includes(word));
  });
}
