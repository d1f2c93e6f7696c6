import { describe, expect, it } from "vitest";
import { listFields, readDraft, writeAll, writeShown } from "./inputs";

const schema = {
  type: "object",
  required: ["token"],
  properties: {
    count: { type: "integer", default: 40 },
    label: { type: "string", default: "visits" },
    strict: { type: "boolean", default: true },
    orders: { type: "array", items: { type: "integer" }, default: [3, 5] },
    mixed: { type: "array", items: {}, default: [3, "a"] },
    mode: { enum: ["fast", "safe"], default: "fast" },
    token: {},
    day: { "x-template": "{{ execution_id }}" },
    db: {
      type: "object",
      properties: { host: { type: "string", default: "a" }, port: { type: "integer", default: 1 } },
    },
    free: { type: "object", properties: {} },
  },
};
const path = (...names: string[]) => JSON.stringify(names);

describe("inputs of a playbook", () => {
  const fields = listFields(schema, { label: "earlier" });

  it("become fields of a form", () => {
    expect(fields.map(({ name, kind }) => [name, kind])).toEqual([
      ["count", "number"],
      ["label", "text"],
      ["strict", "boolean"],
      ["orders", "lines"],
      ["mixed", "json"],
      ["mode", "choice"],
      ["token", "json"],
      ["day", "json"],
      ["db", "group"],
      ["free", "json"],
    ]);
    expect(fields.slice(0, 5).map(({ initial }) => initial)).toEqual(["40", "earlier", "true", "3\n5", '[3,"a"]']);
    expect(fields[7]?.template).toBe("{{ execution_id }}");
    expect(fields[8]?.fields.map((field) => field.path)).toEqual([path("db", "host"), path("db", "port")]);
  });

  it("are sent only if they were changed", () => {
    const texts = { count: "41", label: "earlier", strict: "false", orders: "7\n\n8", token: '{"a": 1}' };
    const draft = Object.fromEntries(Object.entries(texts).map(([name, text]) => [path(name), text]));
    const { json, problems } = readDraft(fields, { ...draft, [path("db", "port")]: "2" });
    expect(problems).toEqual({});
    expect(json).toBe('{"count":41,"strict":false,"orders":[7,8],"token":{"a": 1},"db":{"port":2}}');
  });

  it("keep integers of 64 bits exact", () => {
    const read = (text: string) => readDraft(fields, { [path("count")]: text, [path("token")]: "1" });
    expect(read("9007199254740993").json).toBe('{"count":9007199254740993,"token":1}');
    expect(read("18446744073709551615").json).toContain("18446744073709551615");
    expect(read("18446744073709551616").problems[path("count")]).toBe("more than 64 bits");
    expect(read("-9223372036854775809").problems[path("count")]).toBe("more than 64 bits");
    expect(listFields(schema, { count: 9007199254740993n })[0]?.initial).toBe("9007199254740993");
  });

  it("name what cannot be read or is missing", () => {
    const draft = { [path("count")]: "4.5", [path("orders")]: "1\nx", [path("mixed")]: "[1" };
    const { problems } = readDraft(fields, draft);
    expect(problems[path("count")]).toBe("not a whole number");
    expect(problems[path("orders")]).toBe("line 2: not a number");
    expect(problems[path("mixed")]).toBeDefined();
    expect(problems[path("token")]).toBe("a value is required; null is one");
    expect(readDraft(fields, { [path("token")]: "null" }).problems).toEqual({});
    expect(readDraft(listFields(schema, { token: "t" }), {}).problems).toEqual({});
  });

  it("have another kind if the earlier value has another type", () => {
    const kinds = listFields(schema, { count: "many", db: "none", orders: [[1]], strict: 1 }).map(({ kind }) => kind);
    expect([kinds[0], kinds[8], kinds[3], kinds[2]]).toEqual(["json", "json", "json", "json"]);
  });

  it("can be written as JSON", () => {
    const text = writeAll(fields, { [path("count")]: "9", [path("db", "host")]: "b" });
    expect(JSON.parse(text)).toMatchObject({ count: 9, orders: [3, 5], db: { host: "b", port: 1 } });
  });
});

describe("the values that a form shows", () => {
  const form = {
    properties: {
      amount: { type: "number", default: 5 },
      urgent: { type: "boolean" },
      team: { enum: ["red", "blue"] },
      comment: { type: "string" },
    },
  };

  it("are defaults, empty boxes and first choices", () => {
    expect(writeShown(listFields(form), {})).toBe('{"amount":5,"urgent":false,"team":"red"}');
  });

  it("are what was changed", () => {
    const texts = { '["amount"]': "9007199254740993", '["comment"]': "", '["urgent"]': "true" };
    expect(writeShown(listFields(form), texts)).toBe(
      '{"amount":9007199254740993,"urgent":true,"team":"red","comment":""}',
    );
  });
});
