// JSON with exact integers: those that a JavaScript number would round are BigInts.

export type ExactJson = null | boolean | number | bigint | string | ExactJson[] | { [key: string]: ExactJson };
export type ExactObject = { [key: string]: ExactJson };

/** Reads JSON. Browsers that do not hand over the text of a number round it, as `JSON.parse` does. */
export function parseExact(text: string): ExactJson {
  const revive = (_key: string, value: unknown, context?: { source?: string }) => {
    const isRounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    const source = context?.source;
    return isRounded && source !== undefined && /^-?\d+$/.test(source) ? BigInt(source) : value;
  };
  return JSON.parse(text, revive as (this: unknown, key: string, value: unknown) => unknown) as ExactJson;
}

/** Writes JSON, on several lines if `indent` is positive. */
export function writeExact(value: ExactJson, indent = 0, depth = 0): string {
  if (typeof value === "bigint") return String(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const entries = isList
    ? value.map((entry) => writeExact(entry, indent, depth + 1))
    : Object.entries(value).map(
        ([key, entry]) => `${JSON.stringify(key)}:${indent ? " " : ""}${writeExact(entry, indent, depth + 1)}`,
      );
  const [open, close] = isList ? "[]" : "{}";
  if (entries.length === 0 || indent === 0) return `${open}${entries.join(",")}${close}`;
  const inner = "\n" + " ".repeat(indent * (depth + 1));
  return `${open}${inner}${entries.join(`,${inner}`)}\n${" ".repeat(indent * depth)}${close}`;
}

export function isObject(value: ExactJson | undefined): value is ExactObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
