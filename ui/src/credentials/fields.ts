// The fields of the form that sets a credential. Types and their fields come from the API.
import type { CredentialType } from "../api/types";

/** A field that the person added, or that a type does not know. */
export interface OwnField {
  name: string;
  value: string;
}

export interface CredentialDraft {
  /** Values of the fields of the type, by name. */
  values: Record<string, string>;
  own: OwnField[];
}

export const emptyDraft: CredentialDraft = { values: {}, own: [] };

/** The data to send: fields with a value. */
export function collectData(type: CredentialType | undefined, draft: CredentialDraft): Record<string, string> {
  const known = (type?.fields ?? []).map(({ name }): [string, string] => [name, draft.values[name] ?? ""]);
  const own = draft.own.map(({ name, value }): [string, string] => [name.trim(), value]);
  return Object.fromEntries([...known, ...own].filter(([name, value]) => name !== "" && value !== ""));
}

/** Required fields without a value. */
export function listMissing(type: CredentialType | undefined, draft: CredentialDraft): string[] {
  const required = (type?.fields ?? []).filter((field) => field.is_required);
  return required.filter(({ name }) => !draft.values[name]).map(({ name }) => name);
}
