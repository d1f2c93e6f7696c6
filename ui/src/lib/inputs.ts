// Inputs of a playbook as a form: a tree of fields, a text for each of them, and the JSON that the texts stand for.
// Values stay texts, so that integers of 64 bits are sent exactly.
import type { InputSchema } from "../api/types";
import { isObject, parseExact, writeExact, type ExactJson, type ExactObject } from "./exactJson";

export type FieldKind = "group" | "text" | "number" | "boolean" | "choice" | "lines" | "json";

export interface InputField {
  name: string;
  /** The names of the groups and of the field, as JSON text: unique in the form. */
  path: string;
  kind: FieldKind;
  description: string | null;
  isInteger: boolean;
  /** Whether the playbook has no default. */
  isRequired: boolean;
  /** A default that is computed when the run starts. */
  template: string | null;
  choices: ExactJson[];
  /** The type of the items of `lines`. */
  itemType: string;
  /** The text at first. */
  initial: string;
  /** The fields of a group. */
  fields: InputField[];
}

/** The fields of a schema; `values` of an earlier run come before the defaults. */
export function listFields(schema: InputSchema, values: ExactObject = {}, groups: string[] = []): InputField[] {
  return Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const value = Object.hasOwn(values, name) ? values[name] : property.default;
    return makeField([...groups, name], property, value, schema.required?.includes(name) ?? false);
  });
}

function makeField(
  names: string[],
  property: InputSchema,
  value: ExactJson | undefined,
  isRequired: boolean,
): InputField {
  const kind = kindOf(property, value);
  const template = property["x-template"];
  return {
    name: names.at(-1) ?? "",
    path: JSON.stringify(names),
    kind,
    description: property.description ?? null,
    isInteger: property.type === "integer",
    isRequired: isRequired && (value === undefined || value === null),
    template: template !== undefined && value === undefined ? template : null,
    choices: property.enum ?? [],
    itemType: property.items?.type ?? "",
    initial: kind === "group" ? "" : initialText(kind, value),
    fields: kind === "group" ? listFields(property, isObject(value) ? value : {}, names) : [],
  };
}

const scalarKinds: Record<string, FieldKind> = {
  string: "text",
  integer: "number",
  number: "number",
  boolean: "boolean",
};

/** A value of an earlier run may have another type than the default. */
function kindOf({ type, enum: choices, properties, items }: InputSchema, value: ExactJson | undefined): FieldKind {
  if (choices) return "choice";
  if (type === "object" && Object.keys(properties ?? {}).length > 0) {
    return value === undefined || isObject(value) ? "group" : "json";
  }
  if (type === "array" && ["string", "integer", "number"].includes(items?.type ?? "")) {
    return Array.isArray(value) && value.every(fitsLine) ? "lines" : "json";
  }
  const kind = scalarKinds[type ?? ""] ?? "json";
  const valueKind = { string: "text", bigint: "number", number: "number", boolean: "boolean" }[typeof value as string];
  return value === undefined || valueKind === kind ? kind : "json";
}

function fitsLine(item: ExactJson): boolean {
  const isNumber = typeof item === "number" || typeof item === "bigint";
  return isNumber || (typeof item === "string" && item.trim() === item && item !== "" && !item.includes("\n"));
}

const shortMax = 72;

function initialText(kind: FieldKind, value: ExactJson | undefined): string {
  if (value === undefined) return "";
  if (kind === "text") return String(value);
  if (kind === "lines") return (value as ExactJson[]).map(String).join("\n");
  const short = writeExact(value);
  return kind === "json" && short.length > shortMax ? writeExact(value, 2) : short;
}

export type ReadResult = { json: string } | { problem: string };

/** The JSON that the text of a field stands for, or what is wrong with it. */
export function readField(field: InputField, text: string): ReadResult {
  if (field.kind === "text") return { json: JSON.stringify(text) };
  if (field.kind === "number") return readNumber(text, field.isInteger);
  if (field.kind === "lines") return readLines(field, text);
  return readJson(text);
}

const integerMin = -(2n ** 63n);
const integerMax = 2n ** 64n - 1n;

function readNumber(text: string, isInteger: boolean): ReadResult {
  const trimmed = text.trim();
  if (/^-?(0|[1-9]\d*)$/.test(trimmed)) {
    const integer = BigInt(trimmed);
    return integer < integerMin || integer > integerMax ? { problem: "more than 64 bits" } : { json: trimmed };
  }
  const number = Number(trimmed);
  if (trimmed === "" || !Number.isFinite(number)) return { problem: "not a number" };
  return isInteger ? { problem: "not a whole number" } : { json: JSON.stringify(number) };
}

function readLines({ itemType }: InputField, text: string): ReadResult {
  const lines = text.split("\n").map((line) => line.trim());
  const items: string[] = [];
  for (const [index, line] of lines.entries()) {
    if (line === "") continue;
    const item = itemType === "string" ? { json: JSON.stringify(line) } : readNumber(line, itemType === "integer");
    if ("problem" in item) return { problem: `line ${index + 1}: ${item.problem}` };
    items.push(item.json);
  }
  return { json: `[${items.join(",")}]` };
}

export function readJson(text: string): ReadResult {
  try {
    JSON.parse(text);
    return { json: text.trim() };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : "not JSON" };
  }
}

export interface DraftResult {
  /** The JSON object of the inputs whose texts were changed. */
  json: string;
  /** What is wrong, by the path of the field. */
  problems: Record<string, string>;
}

/** The inputs whose texts were changed, and the problems of those that cannot be read or are missing. */
export function readDraft(fields: InputField[], texts: Record<string, string>): DraftResult {
  const entries: string[] = [];
  const problems: Record<string, string> = {};
  for (const field of fields) {
    if (field.kind === "group") {
      const inner = readDraft(field.fields, texts);
      Object.assign(problems, inner.problems);
      if (inner.json !== "{}") entries.push(`${JSON.stringify(field.name)}:${inner.json}`);
      continue;
    }
    const text = texts[field.path] ?? field.initial;
    const isEmpty = text.trim() === "" || text === "null";
    if (field.isRequired && isEmpty && texts[field.path] !== "null") {
      problems[field.path] = "a value is required; null is one";
      continue;
    }
    if (text === field.initial && !field.isRequired) continue;
    const read = readField(field, text);
    if ("problem" in read) problems[field.path] = read.problem;
    else entries.push(`${JSON.stringify(field.name)}:${read.json}`);
  }
  return { json: `{${entries.join(",")}}`, problems };
}

/** All inputs as they are in the form, as JSON on several lines; texts that cannot be read keep their first value. */
export function writeAll(fields: InputField[], texts: Record<string, string>): string {
  const read = (list: InputField[]): string => {
    const entries = list.flatMap((field) => {
      if (field.kind === "group") return [`${JSON.stringify(field.name)}:${read(field.fields)}`];
      const text = texts[field.path] ?? field.initial;
      const value = [text, field.initial].map((candidate) => readField(field, candidate)).find((one) => "json" in one);
      return value && "json" in value ? [`${JSON.stringify(field.name)}:${value.json}`] : [];
    });
    return `{${entries.join(",")}}`;
  };
  return writeExact(parseExact(read(fields)), 2);
}

/** The values that fields show, as a JSON object: an empty box is false, a choice is the first one; an empty text that was
 * not changed is left out. */
export function writeShown(fields: InputField[], texts: Record<string, string>): string {
  const entries = fields.flatMap((field) => {
    if (field.kind === "group") return [`${JSON.stringify(field.name)}:${writeShown(field.fields, texts)}`];
    const text = texts[field.path] ?? (field.initial || unchangedText(field));
    if (text === "" && !(field.path in texts)) return [];
    const read = readField(field, text);
    return "json" in read ? [`${JSON.stringify(field.name)}:${read.json}`] : [];
  });
  return `{${entries.join(",")}}`;
}

function unchangedText({ kind, choices }: InputField): string {
  if (kind === "boolean") return "false";
  return kind === "choice" && choices[0] !== undefined ? writeExact(choices[0]) : "";
}
