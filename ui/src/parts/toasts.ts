// The list of toasts: short messages about results of actions.
import { useSyncExternalStore } from "react";
import { toApiError } from "../api/problem";
import type { Mark } from "../lib/status";

export interface Toast {
  id: number;
  tone: Mark;
  text: string;
  detail?: string;
}

let toasts: readonly Toast[] = [];
let lastId = 0;
const listeners = new Set<() => void>();

const visibleMs = { done: 4000, other: 12_000 };

export function showToast(toast: Omit<Toast, "id">) {
  lastId += 1;
  const id = lastId;
  setToasts([...toasts.slice(-3), { ...toast, id }]);
  setTimeout(() => dismissToast(id), toast.tone === "done" ? visibleMs.done : visibleMs.other);
}

/** Shows a failed action with the detail and the remedy of its problem. */
export function showFailure(what: string, error: unknown) {
  const { code, detail, remedy } = toApiError(error);
  showToast({ tone: "failed", text: `${what}: ${detail}`, detail: remedy ? `${code}: ${remedy}` : code });
}

export function dismissToast(id: number) {
  setToasts(toasts.filter((toast) => toast.id !== id));
}

export function useToasts(): readonly Toast[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
}

function setToasts(next: readonly Toast[]) {
  toasts = next;
  listeners.forEach((listener) => listener());
}
