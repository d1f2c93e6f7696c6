// Unsaved texts of playbooks, kept in this browser until they are saved or discarded.
import { baseUrl } from "../api/client";

export interface Draft {
  text: string;
  /** The version that the draft changes; null for a new playbook. */
  version: number | null;
  /** When it was kept, as RFC 3339 text. */
  savedAt: string;
}

/** The path of a playbook that has none yet. */
export const newPath = "";

/** Where a draft is kept: servers under other prefixes of one host have drafts of their own. */
export function draftKey(path: string): string {
  return `noetl.draft ${baseUrl.pathname} ${path}`;
}

export function loadDraft(path: string): Draft | null {
  try {
    return readDraft(JSON.parse(localStorage.getItem(draftKey(path)) ?? "null"));
  } catch {
    return null;
  }
}

/** Keeps a draft; false if the browser has no room or keeps nothing for this site. */
export function keepDraft(path: string, draft: Draft): boolean {
  try {
    localStorage.setItem(draftKey(path), JSON.stringify(draft));
    return true;
  } catch {
    return false;
  }
}

export function discardDraft(path: string) {
  try {
    localStorage.removeItem(draftKey(path));
  } catch {
    // The browser keeps nothing for this site.
  }
}

/** A draft as it was kept; null for anything else. */
export function readDraft(kept: unknown): Draft | null {
  if (typeof kept !== "object" || kept === null) return null;
  const { text, version, savedAt } = kept as Record<string, unknown>;
  if (typeof text !== "string" || typeof savedAt !== "string") return null;
  return { text, savedAt, version: typeof version === "number" ? version : null };
}
