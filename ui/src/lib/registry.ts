// A list that mounted components add to: key bindings, actions of the palette. The shell reads all of it.
import { useEffect, useId, useSyncExternalStore } from "react";

export interface RegistryGroup<Entry> {
  title: string;
  entries: Entry[];
}

export function createRegistry<Entry>() {
  const groups = new Map<string, RegistryGroup<Entry>>();
  const listeners = new Set<() => void>();
  let snapshot: RegistryGroup<Entry>[] = [];

  const publish = () => {
    snapshot = [...groups.values()];
    listeners.forEach((listener) => listener());
  };

  return {
    /** All groups; the group that was added last comes last. */
    list: () => snapshot,

    /** The groups, for a component that shows them. */
    useGroups: () =>
      useSyncExternalStore(
        (listener) => {
          listeners.add(listener);
          return () => listeners.delete(listener);
        },
        () => snapshot,
      ),

    /** Adds entries while the calling component is mounted. */
    useEntries: (title: string, entries: Entry[]) => {
      const id = useId();
      useEffect(() => {
        groups.set(id, { title, entries });
        publish();
      });
      useEffect(
        () => () => {
          groups.delete(id);
          publish();
        },
        [id],
      );
    },
  };
}
