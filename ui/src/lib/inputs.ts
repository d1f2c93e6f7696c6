// Inputs of a playbook as a form: a draft of texts, one for each field, and the values that they stand for.
import type { InputSchema, Json, JsonObject } from "../api/types";

export type FieldKind = "text" | "number" | "boolean" | "choice" | "json";

export interface InputField {
  name: string;
  kind: FieldKind;
  description: string | null;
  isInteger: boolean;
  choices: Json[];
  value: Json | undefined;
}

/** The fields of a schema; `values` come before the defaults. */
export function listFields(schema: InputSchema, values: JsonObject = {}): InputField[] {
  return Object.entries(schema.properties ?? {}).map(([name, property]) => ({
    name,
    kind: kindOf(property),
    description: property.description ?? null,
    isInteger: typeNames(property).includes("integer"),
    choices: property.enum ?? [],
    value: name in values ? values[name] : property.default,
  }));
}

const shortMax = 72;

/** The text of a field at first. */
export function draftText({ kind, value }: InputField): string {
  if (value === undefined) return "";
  if (kind === "text") return typeof value === "string" ? value : JSON.stringify(value);
  if (kind === "boolean" || kind === "number") return String(value);
  const short = JSON.stringify(value);
  return kind === "json" && short.length > shortMax ? JSON.stringify(value, null, 2) : short;
}

/** The value that a text stands for, or what is wrong with it. */
export function readField(field: InputField, text: string): { value: Json } | { problem: string } {
  if (field.kind === "text") return { value: text };
  if (field.kind === "boolean") return { value: text === "true" };
  if (field.kind === "number") {
    const number = Number(text);
    const isNumber = text.trim() !== "" && Number.isFinite(number);
    if (!isNumber) return { problem: "not a number" };
    return field.isInteger && !Number.isInteger(number) ? { problem: "not a whole number" } : { value: number };
  }
  return readJson(text);
}

/** The values that fields show before a person changes them: defaults, an empty box as false, the first choice. */
export function shownValues(fields: InputField[]): JsonObject {
  const shown = fields.flatMap(({ name, kind, value, choices }): [string, Json][] => {
    if (value !== undefined) return [[name, value]];
    if (kind === "boolean") return [[name, false]];
    return kind === "choice" && choices[0] !== undefined ? [[name, choices[0]]] : [];
  });
  return Object.fromEntries(shown);
}

export function readJson(text: string): { value: Json } | { problem: string } {
  try {
    return { value: JSON.parse(text) as Json };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : "not JSON" };
  }
}

/** The values of fields whose text was changed, and the problems of those that cannot be read. */
export function readDraft(fields: InputField[], draft: Record<string, string>) {
  const values: JsonObject = {};
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const text = draft[field.name];
    if (text === undefined || text === draftText(field)) continue;
    const read = readField(field, text);
    if ("problem" in read) problems[field.name] = read.problem;
    else values[field.name] = read.value;
  }
  return { values, problems };
}

function kindOf(property: InputSchema): FieldKind {
  const types = typeNames(property).filter((type) => type !== "null");
  if (property.enum) return "choice";
  if (types.length !== 1) return "json";
  const kinds: Record<string, FieldKind> = { string: "text", integer: "number", number: "number", boolean: "boolean" };
  return kinds[types[0] ?? ""] ?? "json";
}

function typeNames({ type }: InputSchema): string[] {
  if (type === undefined) return [];
  return Array.isArray(type) ? type : [type];
}
