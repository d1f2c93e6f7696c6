// What a person prefers, kept in this browser: theme, density, width of the navigation.
import { useSyncExternalStore } from "react";

export interface Preferences {
  theme: "system" | "light" | "dark";
  density: "normal" | "compact";
  /** `auto` follows the width of the window. */
  sidebar: "auto" | "wide" | "narrow";
}

const storageKey = "noetl.preferences";
const defaults: Preferences = { theme: "system", density: "normal", sidebar: "auto" };
const listeners = new Set<() => void>();
let preferences = loadPreferences();

/** Applies the preferences to the document; called before the first paint. */
export function applyPreferences() {
  const { dataset } = document.documentElement;
  dataset["theme"] = preferences.theme;
  dataset["density"] = preferences.density;
  dataset["sidebar"] = preferences.sidebar;
}

export function setPreference<Key extends keyof Preferences>(key: Key, value: Preferences[Key]) {
  preferences = { ...preferences, [key]: value };
  try {
    localStorage.setItem(storageKey, JSON.stringify(preferences));
  } catch {
    // The browser keeps nothing for this site; the preference lasts until the page is closed.
  }
  applyPreferences();
  listeners.forEach((listener) => listener());
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => preferences,
  );
}

export const rowHeights = { normal: 32, compact: 26 };

/** Height of a row of a table in pixels. */
export function useRowHeight(): number {
  return rowHeights[usePreferences().density];
}

function loadPreferences(): Preferences {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(storageKey) ?? "{}");
    return { ...defaults, ...(typeof kept === "object" ? kept : {}) };
  } catch {
    return defaults;
  }
}
