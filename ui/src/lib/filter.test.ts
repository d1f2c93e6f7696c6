import { describe, expect, it } from "vitest";
import { listChips, parseFilterText, readRunFilter, removeChip, removeKey, toApiParams, toggleStatus } from "./filter";

describe("filter of runs", () => {
  it("reads the search parameters that it knows", () => {
    expect(readRunFilter({ status: "failed", q: " 42 ", since: "", tab: "x", longer: 3 })).toEqual({
      status: "FAILED",
      q: "42",
    });
  });

  it("becomes parameters of the API", () => {
    expect(toApiParams({ playbook: "demo/*", code: "HTTP_500", longer: "30s", q: "load" })).toEqual({
      path: "demo/*",
      error_code: "HTTP_500",
      min_duration: "30s",
      q: "load",
    });
  });

  it("splits typed text into chips and the rest", () => {
    expect(parseFilterText("status:failed,cancelled orders since:24h http://x")).toEqual({
      filter: { status: "FAILED,CANCELLED", since: "24h" },
      rest: "orders http://x",
    });
    expect(parseFilterText("status:")).toEqual({ filter: {}, rest: "status:" });
  });

  it("lists and removes chips", () => {
    const filter = { since: "24h", status: "FAILED", q: "x" };
    expect(listChips(filter)).toEqual([
      { key: "status", value: "failed" },
      { key: "since", value: "24h" },
    ]);
    expect(removeKey(filter, "since")).toEqual({ status: "FAILED", q: "x" });
  });

  it("has a chip for each label", () => {
    const { filter, rest } = parseFilterText("label.env=prod label:owner:a:b late", { label: "team:x" });
    expect({ filter, rest }).toEqual({ filter: { label: "team:x,env:prod,owner:a:b" }, rest: "late" });
    const chips = listChips(filter);
    expect(chips.map(({ value }) => value)).toEqual(["team:x", "env:prod", "owner:a:b"]);
    expect(removeChip(filter, { key: "label", value: "env:prod" })).toEqual({ label: "team:x,owner:a:b" });
    expect(removeChip({ label: "team:x", q: "y" }, { key: "label", value: "team:x" })).toEqual({ q: "y" });
  });

  it("toggles statuses", () => {
    expect(toggleStatus({ status: "FAILED" }, "RUNNING")).toEqual({ status: "FAILED,RUNNING" });
    expect(toggleStatus({ status: "FAILED" }, "FAILED")).toEqual({});
  });
});
