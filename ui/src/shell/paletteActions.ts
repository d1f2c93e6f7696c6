// Actions that the views offer in the palette.
import { createRegistry } from "../lib/registry";

export interface PaletteAction {
  label: string;
  hint?: string;
  run: () => void;
}

const registry = createRegistry<PaletteAction>();

export const usePaletteActions = registry.useEntries;
export const usePaletteGroups = registry.useGroups;
