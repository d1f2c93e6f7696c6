import { describe, expect, it } from "vitest";
import { parseExact, writeExact } from "./exactJson";

const hasSource = JSON.parse(
  "1",
  ((_key: string, _value: unknown, context?: { source?: string }) => context?.source !== undefined) as never,
) as boolean;

describe("JSON with exact integers", () => {
  it("is written as it was read", () => {
    for (const text of ['{"a":[1,-2.5,null,true],"b":{"c":"x\\"y"}}', "[]", "{}", '"text"', "9007199254740991"]) {
      expect(writeExact(parseExact(text))).toBe(text);
    }
  });

  it.runIf(hasSource)("keeps integers that a number would round", () => {
    const text = '{"id":9007199254740993,"list":[18446744073709551615,-9223372036854775808],"float":1e300}';
    expect(writeExact(parseExact(text))).toBe(text.replace("1e300", "1e+300"));
    expect(parseExact("9007199254740993")).toBe(9007199254740993n);
  });

  it("writes BigInts as numbers", () => {
    expect(writeExact({ id: 9007199254740993n })).toBe('{"id":9007199254740993}');
  });

  it("can be indented", () => {
    const value = { a: [1, { b: "c" }], d: {} };
    expect(writeExact(value, 2)).toBe(JSON.stringify(value, null, 2));
  });
});
