// Keys that act anywhere on a page: `j`, `g r`, `mod+k`. They rest while a person types or a dialog is open.
import { useEffect } from "react";
import { createRegistry } from "../lib/registry";

export interface KeyBinding {
  /** One key, keys in a row separated by a space, or `mod+` and a key. */
  keys: string;
  label: string;
  run: () => void;
}

const registry = createRegistry<KeyBinding>();
const sequenceMs = 900;

export const useKeys = registry.useEntries;
export const useKeyGroups = registry.useGroups;

/** The key of an event as bindings write it. */
export function nameKey(event: Pick<KeyboardEvent, "key" | "metaKey" | "ctrlKey">): string {
  const key = event.key.length === 1 ? event.key : event.key.toLowerCase();
  return event.metaKey || event.ctrlKey ? `mod+${key.toLowerCase()}` : key;
}

/** Finds the binding for the keys that were pressed, newest group first; `isPrefix` if more keys may follow. */
export function findBinding(bindings: KeyBinding[], pressed: string): { binding?: KeyBinding; isPrefix: boolean } {
  const binding = bindings.findLast((candidate) => candidate.keys === pressed);
  return binding
    ? { binding, isPrefix: false }
    : { isPrefix: bindings.some((candidate) => candidate.keys.startsWith(`${pressed} `)) };
}

/** Listens for keys; used once, by the shell. */
export function useKeyboard() {
  useEffect(() => {
    let pressed = "";
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.altKey || event.isComposing || event.defaultPrevented) return;
      const key = nameKey(event);
      if (!key.startsWith("mod+") && (isTyping(event) || document.querySelector("[role=dialog], [role=menu]"))) return;
      const bindings = registry.list().flatMap((group) => group.entries);
      let found = findBinding(bindings, pressed ? `${pressed} ${key}` : key);
      if (!found.binding && !found.isPrefix && pressed) found = findBinding(bindings, key);
      clearTimeout(timer);
      pressed = found.isPrefix ? key : "";
      timer = setTimeout(() => (pressed = ""), sequenceMs);
      if (!found.binding) return;
      event.preventDefault();
      found.binding.run();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  // A slider takes no letters.
  if (target instanceof HTMLInputElement && target.type === "range") return false;
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}
