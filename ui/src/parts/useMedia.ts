// Whether the window is as narrow as a phone: tables show two lines in a row then.
import { useSyncExternalStore } from "react";

const narrow = window.matchMedia("(max-width: 700px)");

export function useIsNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      narrow.addEventListener("change", listener);
      return () => narrow.removeEventListener("change", listener);
    },
    () => narrow.matches,
  );
}
