// Whether the server answers. Requests report what they saw; the banner reads it.
import { useSyncExternalStore } from "react";

let isLost = false;
const listeners = new Set<() => void>();

export function reportConnection(isReachable: boolean) {
  if (isLost === !isReachable) return;
  isLost = !isReachable;
  listeners.forEach((listener) => listener());
}

export function useConnectionLost(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => isLost,
  );
}
