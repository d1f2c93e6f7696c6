// The width of an element, and whether the system prefers a dark theme; both change while a view is open.
import { useEffect, useState, useSyncExternalStore, type RefObject } from "react";

const dark = window.matchMedia("(prefers-color-scheme: dark)");

export function useIsDark(): boolean {
  return useSyncExternalStore(
    (listener) => {
      dark.addEventListener("change", listener);
      return () => dark.removeEventListener("change", listener);
    },
    () => dark.matches,
  );
}

export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!element.current) return undefined;
    const observer = new ResizeObserver((entries) => {
      const last = entries.at(-1);
      if (last) setWidth(Math.floor(last.contentRect.width));
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element]);
  return width;
}
