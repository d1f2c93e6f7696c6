import { describe, expect, it } from "vitest";
import { draftText, listFields, readDraft, shownValues } from "./inputs";

const schema = {
  type: "object",
  properties: {
    count: { type: "integer", default: 40 },
    label: { type: "string", default: "visits" },
    strict: { type: "boolean", default: true },
    orders: { type: "array", default: [3, 5] },
    mode: { enum: ["fast", "safe"], default: "fast" },
    any: {},
  },
};

describe("inputs of a playbook", () => {
  const fields = listFields(schema, { label: "earlier" });

  it("become fields of a form", () => {
    expect(fields.map(({ name, kind }) => [name, kind])).toEqual([
      ["count", "number"],
      ["label", "text"],
      ["strict", "boolean"],
      ["orders", "json"],
      ["mode", "choice"],
      ["any", "json"],
    ]);
    expect(fields.slice(0, 3).map(draftText)).toEqual(["40", "earlier", "true"]);
  });

  it("are sent only if they were changed", () => {
    expect(
      readDraft(fields, { count: "41", label: "earlier", strict: "false", orders: "[1]", any: "" }).values,
    ).toEqual({
      count: 41,
      strict: false,
      orders: [1],
    });
  });

  it("name what cannot be read", () => {
    const { problems } = readDraft(fields, { count: "4.5", orders: "[1" });
    expect(problems["count"]).toBe("not a whole number");
    expect(problems["orders"]).toBeDefined();
    expect(readDraft(fields, { count: "" }).problems["count"]).toBe("not a number");
  });
});

describe("the values that a form shows", () => {
  it("are defaults, empty boxes and first choices", () => {
    const form = {
      properties: {
        amount: { type: "number", default: 5 },
        urgent: { type: "boolean" },
        team: { enum: ["red", "blue"] },
        comment: { type: "string" },
      },
    };
    expect(shownValues(listFields(form))).toEqual({ amount: 5, urgent: false, team: "red" });
  });
});
