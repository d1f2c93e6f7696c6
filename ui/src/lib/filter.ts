// The filter of the list of runs: search parameters of the page, chips such as `status:failed`, parameters of the API.
import type { RunFilterParams } from "../api/types";
import { addLabel, removeLabel, splitLabels } from "./labels";

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
  /** `key:value` pairs, separated by commas. */
  label?: string;
}

export const filterKeys = [
  "status",
  "playbook",
  "label",
  "since",
  "until",
  "code",
  "longer",
  "shorter",
  "parent",
] as const;
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
    ...(filter.label && { label: filter.label }),
  };
}

/** Splits typed text into chips (`key:value`, `label.team=x`) and the text that remains; keeps the labels of `current`. */
export function parseFilterText(text: string, current: RunFilter = {}): { filter: RunFilter; rest: string } {
  const filter: RunFilter = {};
  const rest = text.split(/\s+/).filter((word) => {
    const label = /^label[.:]([\w./-]+)[=:](.+)$/i.exec(word);
    if (label?.[1] && label[2]) {
      filter.label = addLabel(filter.label ?? current.label, label[1], label[2]);
      return false;
    }
    const colon = word.indexOf(":");
    const key = filterKeys.find((candidate) => candidate === word.slice(0, colon).toLowerCase());
    const value = word.slice(colon + 1);
    if (!key || !value) return true;
    filter[key] = normalizeValue(key, value);
    return false;
  });
  return { filter, rest: rest.join(" ").trim() };
}

/** The chips of a filter, in the order of the keys; each label has its own. */
export function listChips(filter: RunFilter): { key: FilterKey; value: string }[] {
  return filterKeys.flatMap((key): { key: FilterKey; value: string }[] => {
    const value = filter[key];
    if (key === "label") return splitLabels(value ?? "").map((pair) => ({ key, value: pair }));
    return value ? [{ key, value: key === "status" ? value.toLowerCase() : value }] : [];
  });
}

/** The filter without a key. */
export function removeKey(filter: RunFilter, key: FilterKey | "q"): RunFilter {
  const rest = { ...filter };
  delete rest[key];
  return rest;
}

/** The filter without a chip. */
export function removeChip(filter: RunFilter, { key, value }: { key: FilterKey; value: string }): RunFilter {
  const label = key === "label" && filter.label ? removeLabel(filter.label, value) : "";
  return label ? { ...filter, label } : removeKey(filter, key);
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
