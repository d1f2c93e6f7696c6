// Search parameters of the URL as plain text. The default of the router reads JSON, which breaks 64-bit IDs.

export type SearchText = Record<string, string>;

export function parseSearch(text: string): SearchText {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== "") params.set(key, String(value));
  }
  // These characters are allowed in a query and easier to read as they are.
  const text = params.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":");
  return text ? `?${text}` : "";
}

/** A text parameter, if it is present. */
export function readText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A parameter that is a whole number of at least zero. */
export function readNumber(value: unknown): number | undefined {
  const text = typeof value === "number" ? String(value) : readText(value);
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** A parameter that is one of the given words. */
export function readWord<Word extends string>(value: unknown, words: readonly Word[]): Word | undefined {
  return words.find((word) => word === value);
}

/** The object without the keys whose value is undefined. */
export function omitUndefined<Value extends object>(
  value: Value,
): { [Key in keyof Value]?: Exclude<Value[Key], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as {
    [Key in keyof Value]?: Exclude<Value[Key], undefined>;
  };
}
