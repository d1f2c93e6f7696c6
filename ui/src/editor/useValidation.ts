// Checks a text while it is typed: after a pause, and one check at a time.
import { useEffect, useRef, useState } from "react";
import { validatePlaybook } from "../api/actions";
import type { Validation } from "../api/types";
import { createLatest, type Latest } from "../lib/latest";

const typingMs = 300;

export interface ValidationState {
  /** The newest result; null before the first one. */
  result: Validation | null;
  /** Whether the result is about the text as it is now. */
  isCurrent: boolean;
  error: unknown;
}

interface Checked {
  text: string;
  result: Validation | null;
  error: unknown;
}

export function useValidation(text: string, hasGraph: boolean): ValidationState {
  const [checked, setChecked] = useState<Checked | null>(null);
  const latestRef = useRef<Latest<string>>(null);
  useEffect(() => {
    let isMounted = true;
    const latest = createLatest(async (value: string) => {
      try {
        const result = await validatePlaybook(value, hasGraph);
        if (isMounted) setChecked({ text: value, result, error: null });
      } catch (error) {
        if (isMounted) setChecked((before) => ({ text: value, result: before?.result ?? null, error }));
      }
    });
    latestRef.current = latest;
    return () => {
      isMounted = false;
      latest.clear();
    };
  }, [hasGraph]);
  useEffect(() => {
    if (text.trim() === "") return undefined;
    const timer = setTimeout(() => latestRef.current?.push(text), typingMs);
    return () => clearTimeout(timer);
  }, [text, hasGraph]);
  const isCurrent = checked?.text === text && checked.error === null;
  return { result: checked?.result ?? null, isCurrent, error: checked?.error ?? null };
}
