import { describe, expect, it } from "vitest";
import { omitUndefined, parseSearch, readNumber, readWord, stringifySearch } from "./search";

describe("search parameters", () => {
  it("keeps long IDs as text", () => {
    expect(parseSearch("?parent=249252908225265664")).toEqual({ parent: "249252908225265664" });
  });

  it("omits what is empty, and stays readable", () => {
    expect(stringifySearch({ status: "FAILED,PAUSED", q: "", seq: 7, tab: undefined })).toBe(
      "?status=FAILED,PAUSED&seq=7",
    );
    expect(stringifySearch({})).toBe("");
  });

  it("reads numbers and words", () => {
    expect(readNumber("17")).toBe(17);
    expect(readNumber("-1")).toBeUndefined();
    expect(readNumber("1e3")).toBeUndefined();
    expect(readWord("logs", ["graph", "logs"])).toBe("logs");
    expect(readWord("x", ["graph"])).toBeUndefined();
  });

  it("omits undefined values", () => {
    expect(omitUndefined({ a: 1, b: undefined })).toEqual({ a: 1 });
  });
});
