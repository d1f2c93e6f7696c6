// Filters that a person saved under a name, kept in this browser.
import { readRunFilter, type RunFilter } from "../lib/filter";

export interface SavedView {
  name: string;
  filter: RunFilter;
}

const storageKey = "noetl.views";
export const viewsMax = 30;

/** The saved views; entries that are not valid are left out. */
export function parseViews(text: string | null): SavedView[] {
  try {
    const saved: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(saved)) return [];
    return saved.flatMap((entry: unknown) => {
      const { name, filter } = (entry ?? {}) as { name?: unknown; filter?: unknown };
      const isValid = typeof name === "string" && name !== "" && typeof filter === "object" && filter !== null;
      return isValid ? [{ name, filter: readRunFilter(filter as Record<string, unknown>) }] : [];
    });
  } catch {
    return [];
  }
}

/** The views with one more, which replaces the one with the same name; the oldest are dropped beyond the maximum. */
export function withView(views: SavedView[], view: SavedView): SavedView[] {
  return [...views.filter(({ name }) => name !== view.name), view].slice(-viewsMax);
}

export function loadViews(): SavedView[] {
  try {
    return parseViews(localStorage.getItem(storageKey));
  } catch {
    return [];
  }
}

/** Saves the views; returns false if the browser keeps nothing for this site. */
export function storeViews(views: SavedView[]): boolean {
  try {
    localStorage.setItem(storageKey, JSON.stringify(views));
    return true;
  } catch {
    return false;
  }
}
