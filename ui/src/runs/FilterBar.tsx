// The filter of the list: chips and text, the same as in the URL. Typing `status:failed` makes a chip.
import { useEffect, useRef, useState } from "react";
import type { Facets } from "../api/types";
import { IconButton } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { listChips, parseFilterText, removeChip, removeKey, type RunFilter } from "../lib/filter";
import { formatUtc } from "../lib/time";
import { useKeys } from "../shell/keyboard";
import { FilterMenu } from "./FilterMenu";
import { SavedViews } from "./SavedViews";

interface FilterBarProps {
  filter: RunFilter;
  facets: Facets | undefined;
  onChange: (filter: RunFilter) => void;
}

const typingMs = 250;

export function FilterBar({ filter, facets, onChange }: FilterBarProps) {
  const [text, setText] = useState(filter.q ?? "");
  const inputRef = useRef<HTMLInputElement>(null);
  const chips = listChips(filter);
  useEffect(() => setText(filter.q ?? ""), [filter.q]);
  useKeys("Runs", [{ keys: "/", label: "Filter", run: () => inputRef.current?.focus() }]);

  const apply = (typed: string) => {
    const { filter: typedFilter, rest } = parseFilterText(typed, filter);
    const next = { ...removeKey(filter, "q"), ...typedFilter, ...(rest ? { q: rest } : {}) };
    if (JSON.stringify(next) !== JSON.stringify(filter)) onChange(next);
    setText(rest);
  };
  useEffect(() => {
    if (text === (filter.q ?? "") || /[:=]/.test(text)) return undefined;
    const timer = setTimeout(() => apply(text), typingMs);
    return () => clearTimeout(timer);
  });

  const onKeyDown = (event: React.KeyboardEvent) => {
    const lastChip = chips.at(-1);
    if (event.key === "Enter" || (event.key === " " && /[:=]/.test(text))) {
      event.preventDefault();
      apply(text);
    }
    if (event.key === "Backspace" && text === "" && lastChip) onChange(removeChip(filter, lastChip));
    if (event.key === "Escape") inputRef.current?.blur();
  };

  return (
    <div className="filter-bar" role="search">
      <Icon name="search" />
      {chips.map(({ key, value }) => (
        <span key={`${key}:${value}`} className="tag filter-chip">
          <span className="muted">{key}:</span>
          {key === "since" || key === "until" ? showTime(value) : value}
          <button
            type="button"
            aria-label={`Remove ${key}:${value}`}
            onClick={() => onChange(removeChip(filter, { key, value }))}
          >
            ×
          </button>
        </span>
      ))}
      <input
        ref={inputRef}
        className="filter-input"
        aria-label="Filter runs"
        placeholder={chips.length > 0 ? "" : "Run ID, playbook, step or error, or status:failed label.team=x since:24h"}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
        onBlur={() => apply(text)}
      />
      {(chips.length > 0 || filter.q) && (
        <IconButton isSmall icon="close" label="Clear the filter" onClick={() => onChange({})} />
      )}
      <SavedViews filter={filter} onChange={onChange} />
      <FilterMenu filter={filter} facets={facets} onChange={onChange} />
    </div>
  );
}

function showTime(value: string): string {
  return /^\d{4}-/.test(value) ? formatUtc(value) : value;
}
