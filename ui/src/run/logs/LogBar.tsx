// The controls above the lines: whose lines, which text, errors only, wrap, follow, download.
import { useEffect, useRef, useState } from "react";
import { Button, IconButton } from "../../parts/Button";
import { useKeys } from "../../shell/keyboard";
import { useRun } from "../context";
import { formatAddress, readSelection, type RunView } from "../runView";

interface LogBarProps {
  count: number;
  hasEarlier: boolean;
  isWrapped: boolean;
  isFollowed: boolean;
  onWrap: () => void;
  onFollow: () => void;
  onFirstError: () => void;
  onSave: () => void;
}

const typingMs = 250;

export function LogBar(props: LogBarProps) {
  const { view, setView } = useRun();
  const selection = readSelection(view);
  const toggle = (key: "from" | "level", value: "selection" | "error") =>
    setView((current) => {
      const next: RunView = { ...current };
      if (next[key]) delete next[key];
      else Object.assign(next, { [key]: value });
      return next;
    }, true);
  return (
    <div className="tab-bar">
      <TextFilter />
      <Button isSmall aria-pressed={view.level === "error"} onClick={() => toggle("level", "error")}>
        Errors only
      </Button>
      {selection && (
        <Button isSmall aria-pressed={view.from === "selection"} onClick={() => toggle("from", "selection")}>
          Only <span className="mono">{formatAddress(selection)}</span>
        </Button>
      )}
      <Button isSmall look="quiet" onClick={props.onFirstError}>
        First error
      </Button>
      <span className="grow" />
      <span className="muted">
        {props.count.toLocaleString("en")} {props.count === 1 ? "line" : "lines"}
        {props.hasEarlier && " loaded"}
      </span>
      <Button isSmall aria-pressed={props.isFollowed} onClick={props.onFollow}>
        Follow
      </Button>
      <IconButton isSmall icon="wrap" label="Wrap lines" aria-pressed={props.isWrapped} onClick={props.onWrap} />
      <IconButton isSmall icon="download" label="Download these lines" onClick={props.onSave} />
    </div>
  );
}

function TextFilter() {
  const { view, setView } = useRun();
  const [text, setText] = useState(view.q ?? "");
  const inputRef = useRef<HTMLInputElement>(null);
  useEffect(() => setText(view.q ?? ""), [view.q]);
  useEffect(() => {
    if (text === (view.q ?? "")) return undefined;
    const timer = setTimeout(() => {
      setView((current) => {
        const next = { ...current };
        delete next.q;
        return text ? { ...next, q: text } : next;
      }, true);
    }, typingMs);
    return () => clearTimeout(timer);
  }, [text, view.q, setView]);
  useKeys("Logs", [{ keys: "/", label: "Filter lines", run: () => inputRef.current?.focus() }]);
  return (
    <input
      ref={inputRef}
      className="input log-filter"
      type="search"
      aria-label="Filter lines"
      placeholder="Filter lines"
      value={text}
      onChange={(event) => setText(event.target.value)}
    />
  );
}
