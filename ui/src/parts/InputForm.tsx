// The inputs of a run as a form made from the playbook, or as JSON. The parent keeps the draft.
import { useId } from "react";
import type { InputSchema, JsonObject } from "../api/types";
import { draftText, listFields, readDraft, readJson, type InputField } from "../lib/inputs";
import { Button } from "./Button";

export interface InputDraft {
  mode: "form" | "json";
  texts: Record<string, string>;
  json: string;
}

export const emptyDraft: InputDraft = { mode: "form", texts: {}, json: "" };

/** The inputs of a draft that differ from the defaults; null if a field cannot be read. */
export function readInputs(schema: InputSchema, values: JsonObject, draft: InputDraft): JsonObject | null {
  if (draft.mode === "json") {
    const read = readJson(draft.json || "{}");
    const isObject = "value" in read && typeof read.value === "object" && read.value !== null;
    return isObject && !Array.isArray(read.value) ? (read.value as JsonObject) : null;
  }
  const { values: changed, problems } = readDraft(listFields(schema, values), draft.texts);
  return Object.keys(problems).length > 0 ? null : changed;
}

interface InputFormProps {
  schema: InputSchema;
  /** Inputs of an earlier run, before the defaults. */
  values?: JsonObject;
  draft: InputDraft;
  onChange: (draft: InputDraft) => void;
  title?: string;
  /** What the form says if the schema has no fields. */
  none?: string;
  /** Whether only JSON is offered, because there is no schema. */
  isJsonOnly?: boolean;
}

export function InputForm({
  schema,
  values = {},
  draft,
  onChange,
  title = "Inputs",
  none = "This playbook has no inputs.",
  isJsonOnly = false,
}: InputFormProps) {
  const fields = listFields(schema, values);
  const { problems } = readDraft(fields, draft.texts);
  const switchMode = () => {
    if (draft.mode === "json") return onChange({ ...draft, mode: "form" });
    const changed = readDraft(fields, draft.texts).values;
    const all = Object.fromEntries(fields.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])));
    onChange({ ...draft, mode: "json", json: JSON.stringify({ ...all, ...changed }, null, 2) });
  };
  return (
    <fieldset className="inputs">
      <legend className="row">
        <h3 className="grow">{title}</h3>
        {!isJsonOnly && (
          <Button isSmall look="quiet" aria-pressed={draft.mode === "json"} onClick={switchMode}>
            JSON
          </Button>
        )}
      </legend>
      {draft.mode === "json" ? (
        <JsonInputs
          label={`${title} as JSON`}
          rows={isJsonOnly ? 5 : 12}
          text={draft.json}
          onChange={(json) => onChange({ ...draft, json })}
        />
      ) : fields.length === 0 ? (
        <p className="muted">{none}</p>
      ) : (
        fields.map((field) => (
          <Field
            key={field.name}
            field={field}
            text={draft.texts[field.name] ?? draftText(field)}
            problem={problems[field.name]}
            onChange={(text) => onChange({ ...draft, texts: { ...draft.texts, [field.name]: text } })}
          />
        ))
      )}
    </fieldset>
  );
}

interface JsonInputsProps {
  label: string;
  rows: number;
  text: string;
  onChange: (text: string) => void;
}

function JsonInputs({ label, rows, text, onChange }: JsonInputsProps) {
  const read = readJson(text || "{}");
  const problem = "problem" in read ? read.problem : null;
  return (
    <div className="field">
      <textarea
        className="input"
        rows={rows}
        placeholder={'{"key": "value"}'}
        aria-label={label}
        aria-invalid={problem !== null}
        spellCheck={false}
        value={text}
        onChange={(event) => onChange(event.target.value)}
      />
      {problem && <p className="tone-failed">{problem}</p>}
    </div>
  );
}

interface FieldProps {
  field: InputField;
  text: string;
  problem: string | undefined;
  onChange: (text: string) => void;
}

function Field({ field, text, problem, onChange }: FieldProps) {
  const id = useId();
  const common = {
    id,
    "aria-invalid": problem !== undefined,
    "aria-describedby": `${id}-hint`,
    value: text,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  if (field.kind === "boolean") {
    return (
      <label className="check">
        <input type="checkbox" checked={text === "true"} onChange={(event) => onChange(String(event.target.checked))} />
        <span className="mono">{field.name}</span>
        {field.description && <span className="muted">{field.description}</span>}
      </label>
    );
  }
  return (
    <div className="field">
      <label htmlFor={id}>
        <span className="mono">{field.name}</span> <span className="muted">{describeKind(field)}</span>
      </label>
      {field.kind === "choice" ? (
        <select className="input" {...common}>
          {field.choices.map((choice) => (
            <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
              {String(choice)}
            </option>
          ))}
        </select>
      ) : field.kind === "json" ? (
        <textarea className="input" rows={Math.min(10, text.split("\n").length + 1)} spellCheck={false} {...common} />
      ) : (
        <input className="input" type="text" inputMode={field.kind === "number" ? "decimal" : "text"} {...common} />
      )}
      <p id={`${id}-hint`} className={problem ? "tone-failed" : "field-hint"}>
        {problem ?? field.description}
      </p>
    </div>
  );
}

function describeKind({ kind, isInteger }: InputField): string {
  if (kind === "number") return isInteger ? "whole number" : "number";
  return kind === "json" ? "JSON" : kind === "choice" ? "" : kind;
}
