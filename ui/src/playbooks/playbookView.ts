// The state of the page of a playbook, as search parameters.
import { omitUndefined, readNumber, readText, readWord } from "../lib/search";

export const playbookTabs = ["graph", "runs", "versions", "source", "callers"] as const;
export type PlaybookTab = (typeof playbookTabs)[number];

export interface PlaybookView {
  tab?: PlaybookTab;
  /** The version that is shown; the latest without it. */
  version?: number;
  /** The versions that are compared, in the tab of versions. */
  from?: number;
  to?: number;
  /** The selected step of the graph. */
  step?: string;
  /** The marked line of the source. */
  line?: number;
  dialog?: "run";
}

export function readPlaybookView(search: Record<string, unknown>): PlaybookView {
  return omitUndefined({
    tab: readWord(search["tab"], playbookTabs),
    version: readNumber(search["version"]),
    from: readNumber(search["from"]),
    to: readNumber(search["to"]),
    step: readText(search["step"]),
    line: readNumber(search["line"]),
    dialog: readWord(search["dialog"], ["run"] as const),
  });
}
