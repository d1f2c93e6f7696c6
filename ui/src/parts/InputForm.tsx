// The inputs of a run as a form made from the playbook, or as JSON. The parent keeps the draft.
import { useId } from "react";
import type { InputSchema } from "../api/types";
import { isObject, parseExact, writeExact, type ExactObject } from "../lib/exactJson";
import { listFields, readDraft, readJson, writeAll, type InputField } from "../lib/inputs";
import { Button } from "./Button";
import "./inputs.css";

export interface InputDraft {
  mode: "form" | "json";
  /** The texts that were changed, by the path of the field. */
  texts: Record<string, string>;
  json: string;
}

export const emptyDraft: InputDraft = { mode: "form", texts: {}, json: "" };

/** The JSON object of the inputs of a draft that were changed; null if a field cannot be read. */
export function readInputs(schema: InputSchema, values: ExactObject, draft: InputDraft): string | null {
  if (draft.mode === "json") {
    const read = readJson(draft.json || "{}");
    if ("problem" in read) return null;
    const value = parseExact(read.json);
    return isObject(value) ? writeExact(value) : null;
  }
  const { json, problems } = readDraft(listFields(schema, values), draft.texts);
  return Object.keys(problems).length > 0 ? null : json;
}

interface InputFormProps {
  schema: InputSchema;
  /** Inputs of an earlier run, before the defaults. */
  values?: ExactObject;
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
    onChange({ ...draft, mode: "json", json: writeAll(fields, draft.texts) });
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
        <FieldList
          fields={fields}
          texts={draft.texts}
          problems={problems}
          onText={(path, text) => onChange({ ...draft, texts: { ...draft.texts, [path]: text } })}
        />
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
  const problem = "problem" in read ? read.problem : isObject(parseExact(read.json)) ? null : "not an object";
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

interface FieldListProps {
  fields: InputField[];
  texts: Record<string, string>;
  problems: Record<string, string>;
  onText: (path: string, text: string) => void;
}

function FieldList({ fields, texts, problems, onText }: FieldListProps) {
  return fields.map((field) =>
    field.kind === "group" ? (
      <fieldset key={field.path} className="input-group">
        <legend>
          <span className="mono">{field.name}</span>
          {field.description && <span className="muted"> {field.description}</span>}
        </legend>
        <FieldList fields={field.fields} texts={texts} problems={problems} onText={onText} />
      </fieldset>
    ) : (
      <Field
        key={field.path}
        field={field}
        text={texts[field.path] ?? field.initial}
        // An untouched field is not wrong yet.
        problem={field.path in texts ? problems[field.path] : undefined}
        onChange={(text) => onText(field.path, text)}
      />
    ),
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
  const hint = problem ?? field.description;
  const common = {
    id,
    "aria-invalid": problem !== undefined,
    "aria-required": field.isRequired,
    ...(hint ? { "aria-describedby": `${id}-hint` } : {}),
    placeholder: field.template ?? (field.kind === "json" ? '"text", 5, true, [1, 2] or {"key": "value"}' : undefined),
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
            <option key={writeExact(choice)} value={writeExact(choice)}>
              {String(choice)}
            </option>
          ))}
        </select>
      ) : field.kind === "json" || field.kind === "lines" ? (
        <textarea className="input" rows={Math.min(10, text.split("\n").length + 1)} spellCheck={false} {...common} />
      ) : (
        <input className="input" type="text" inputMode={field.kind === "number" ? "decimal" : "text"} {...common} />
      )}
      {hint && (
        <p id={`${id}-hint`} className={problem ? "tone-failed" : "field-hint"}>
          {hint}
        </p>
      )}
    </div>
  );
}

function describeKind({ kind, isInteger, isRequired, template, itemType }: InputField): string {
  const required = isRequired ? ", required" : template ? ", computed when the run starts" : "";
  if (kind === "number") return `${isInteger ? "whole number" : "number"}${required}`;
  if (kind === "lines") return `list, one ${itemType === "string" ? "text" : "number"} on each line${required}`;
  return `${kind === "json" ? "JSON" : kind === "choice" ? "" : kind}${required}`;
}
