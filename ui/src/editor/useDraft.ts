// The text of the editor: what was saved, what changed since, and the draft of it in this browser.
import { useEffect, useState } from "react";
import { discardDraft, keepDraft, loadDraft, type Draft } from "./drafts";

const keepMs = 500;

export interface SavedText {
  text: string;
  /** Null for a new playbook. */
  version: number | null;
}

export interface DraftState {
  text: string;
  setText: (text: string) => void;
  isChanged: boolean;
  saved: SavedText;
  /** The draft that the editor began with. */
  restored: Draft | null;
  /** Whether the browser keeps the draft. */
  isKept: boolean;
  /** Keeps the draft at once. */
  keep: () => void;
  /** Returns to the saved text. */
  discard: () => void;
  /** Makes a text the saved one. */
  markSaved: (saved: SavedText) => void;
}

/** The draft at `path`. Changes of `initial` after the first call are ignored. */
export function useDraft(path: string, initial: SavedText, isEditable: boolean): DraftState {
  const [saved, setSaved] = useState(initial);
  const [restored, setRestored] = useState(() => {
    const draft = loadDraft(path);
    return draft && draft.text !== initial.text ? draft : null;
  });
  const [text, setText] = useState(restored?.text ?? initial.text);
  const [isKept, setIsKept] = useState(true);
  const isChanged = text !== saved.text;
  const keep = () => setIsKept(keepDraft(path, { text, version: saved.version, savedAt: new Date().toISOString() }));
  useEffect(() => {
    if (!isEditable) return undefined;
    if (!isChanged) {
      discardDraft(path);
      return undefined;
    }
    const timer = setTimeout(keep, keepMs);
    return () => clearTimeout(timer);
  }, [path, text, isChanged, isEditable, saved.version]);
  return {
    text: isEditable ? text : saved.text,
    setText,
    isChanged: isEditable && isChanged,
    saved,
    restored: isEditable ? restored : null,
    isKept,
    keep,
    discard: () => {
      discardDraft(path);
      setText(saved.text);
      setRestored(null);
    },
    markSaved: (next) => {
      discardDraft(path);
      setSaved(next);
      setRestored(null);
    },
  };
}
