// The filter of the list of runs: search parameters of the page, chips such as `status:failed`, parameters of the API.
import type { RunFilterParams } from "../api/types";

export interface RunFilter {
  q?: string;
  status?: string;
  playbook?: string;
  since?: string;
  until?: string;
  code?: string;
  longer?: string;
  shorter?: string;
  parent?: string;
}

export const filterKeys = ["status", "playbook", "since", "until", "code", "longer", "shorter", "parent"] as const;
export type FilterKey = (typeof filterKeys)[number];

export const runStatuses = ["RUNNING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED"] as const;

/** Keeps the search parameters that are a filter and have text. */
export function readRunFilter(search: Record<string, unknown>): RunFilter {
  const filter: RunFilter = {};
  for (const key of ["q", ...filterKeys] as const) {
    const value = search[key];
    if (typeof value === "string" && value.trim()) filter[key] = normalizeValue(key, value.trim());
  }
  return filter;
}

/** The filter as parameters of the API. */
export function toApiParams(filter: RunFilter): RunFilterParams {
  return {
    ...(filter.q && { q: filter.q }),
    ...(filter.status && { status: filter.status }),
    ...(filter.playbook && { path: filter.playbook }),
    ...(filter.since && { since: filter.since }),
    ...(filter.until && { until: filter.until }),
    ...(filter.code && { error_code: filter.code }),
    ...(filter.longer && { min_duration: filter.longer }),
    ...(filter.shorter && { max_duration: filter.shorter }),
    ...(filter.parent && { parent: filter.parent }),
  };
}

/** Splits typed text into chips (`key:value`) and the text that remains. */
export function parseFilterText(text: string): { filter: RunFilter; rest: string } {
  const filter: RunFilter = {};
  const rest = text.split(/\s+/).filter((word) => {
    const colon = word.indexOf(":");
    const key = filterKeys.find((candidate) => candidate === word.slice(0, colon).toLowerCase());
    const value = word.slice(colon + 1);
    if (!key || !value) return true;
    filter[key] = normalizeValue(key, value);
    return false;
  });
  return { filter, rest: rest.join(" ").trim() };
}

/** The chips of a filter, in the order of the keys. */
export function listChips(filter: RunFilter): { key: FilterKey; value: string }[] {
  return filterKeys.flatMap((key) => {
    const value = filter[key];
    return value ? [{ key, value: key === "status" ? value.toLowerCase() : value }] : [];
  });
}

/** The filter without a key. */
export function removeKey(filter: RunFilter, key: FilterKey | "q"): RunFilter {
  const rest = { ...filter };
  delete rest[key];
  return rest;
}

/** Adds a status to the filter, or removes it. */
export function toggleStatus(filter: RunFilter, status: string): RunFilter {
  const current = filter.status ? filter.status.split(",") : [];
  const next = current.includes(status) ? current.filter((value) => value !== status) : [...current, status];
  return next.length > 0 ? { ...filter, status: next.join(",") } : removeKey(filter, "status");
}

function normalizeValue(key: FilterKey | "q", value: string): string {
  return key === "status" ? value.toUpperCase() : value;
}
