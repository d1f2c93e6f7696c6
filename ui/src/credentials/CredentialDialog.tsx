// Sets a credential: a new one, or the next version of an existing one. The values leave the page with the request.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { setCredential } from "../api/adminActions";
import { credentialTypesQuery } from "../api/adminQueries";
import type { CredentialType, ListedCredential } from "../api/types";
import { quoteArgument } from "../lib/cli";
import { Button, IconButton } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { Modal } from "../parts/Modal";
import { ProblemNote } from "../parts/ProblemNote";
import { showToast } from "../parts/toasts";
import { collectData, emptyDraft, listMissing, type CredentialDraft, type OwnField } from "./fields";

interface CredentialDialogProps {
  /** The credential that gets a new version; undefined for a new credential. */
  replaced: ListedCredential | undefined;
  onClose: () => void;
}

export function CredentialDialog({ replaced, onClose }: CredentialDialogProps) {
  const client = useQueryClient();
  const { data: types, error } = useQuery(credentialTypesQuery);
  const [name, setName] = useState(replaced?.name ?? "");
  const [typeName, setTypeName] = useState(replaced?.type ?? "bearer");
  const [draft, setDraft] = useState<CredentialDraft>(emptyDraft);
  const type = types?.types.find((candidate) => candidate.name === typeName);
  const data = collectData(type, draft);
  const isComplete = name.trim() !== "" && typeName.trim() !== "" && listMissing(type, draft).length === 0;
  const save = useMutation({
    mutationFn: () => setCredential(name.trim(), typeName.trim(), data),
    // The values must not stay in the cache of mutations.
    gcTime: 0,
    onSuccess: ({ version }) => {
      showToast({ tone: "done", text: `Set ${name.trim()}, version ${version}` });
      void client.invalidateQueries({ queryKey: ["credentials"] });
      onClose();
    },
  });
  const command = `noetl secret set ${quoteArgument(name.trim() || "NAME")} --type ${quoteArgument(typeName || "TYPE")} --file fields.json`;

  return (
    <Modal
      title={replaced ? `Replace the value of ${replaced.name}` : "Set a credential"}
      description="Values are encrypted. No page and no command shows them again."
      onClose={onClose}
      foot={
        <>
          <CopyButton text={command} what="the command">
            Copy CLI
          </CopyButton>
          <span className="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button
            look="primary"
            disabled={!isComplete || Object.keys(data).length === 0 || save.isPending}
            onClick={() => save.mutate()}
          >
            {replaced ? `Set version ${replaced.version + 1}` : "Set"}
          </Button>
        </>
      }
    >
      {!replaced && <NameField name={name} onChange={setName} />}
      {types && <TypeField types={types.types} name={typeName} onChange={setTypeName} />}
      <KnownFields type={type} draft={draft} onChange={setDraft} />
      <OwnFields fields={draft.own} onChange={(own) => setDraft({ ...draft, own })} />
      {(error ?? save.error) && <ProblemNote error={error ?? save.error} />}
    </Modal>
  );
}

function NameField({ name, onChange }: { name: string; onChange: (name: string) => void }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>Name</label>
      <input
        id={id}
        className="input mono"
        autoComplete="off"
        spellCheck={false}
        value={name}
        onChange={(event) => onChange(event.target.value)}
      />
      <span className="field-hint">
        Playbooks refer to it as <code>auth: {name.trim() || "NAME"}</code>. An existing name gets a new version.
      </span>
    </div>
  );
}

interface TypeFieldProps {
  types: CredentialType[];
  name: string;
  onChange: (name: string) => void;
}

function TypeField({ types, name, onChange }: TypeFieldProps) {
  const id = useId();
  const known = types.find((type) => type.name === name);
  return (
    <div className="field">
      <label htmlFor={id}>Type</label>
      <select id={id} className="input" value={known ? name : ""} onChange={(event) => onChange(event.target.value)}>
        {types.map((type) => (
          <option key={type.name} value={type.name}>
            {type.name}
          </option>
        ))}
        <option value="">another type</option>
      </select>
      {known ? (
        <span className="field-hint">{known.description}</span>
      ) : (
        <input
          className="input mono"
          aria-label="Name of the type"
          placeholder="Name of the type"
          value={name}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </div>
  );
}

interface KnownFieldsProps {
  type: CredentialType | undefined;
  draft: CredentialDraft;
  onChange: (draft: CredentialDraft) => void;
}

function KnownFields({ type, draft, onChange }: KnownFieldsProps) {
  const prefix = useId();
  return type?.fields.map(({ name, description, is_secret, is_required, is_multiline }) => {
    const id = `${prefix}${name}`;
    const value = draft.values[name] ?? "";
    const set = (text: string) => onChange({ ...draft, values: { ...draft.values, [name]: text } });
    return (
      <div key={name} className="field">
        <label htmlFor={id}>
          <span className="mono">{name}</span> {!is_required && <span className="muted">optional</span>}
        </label>
        {is_multiline ? (
          <textarea
            id={id}
            className="input"
            rows={4}
            spellCheck={false}
            value={value}
            onChange={(event) => set(event.target.value)}
          />
        ) : (
          <input
            id={id}
            className="input"
            type={is_secret ? "password" : "text"}
            autoComplete={is_secret ? "new-password" : "off"}
            value={value}
            onChange={(event) => set(event.target.value)}
          />
        )}
        <span className="field-hint">{description}</span>
      </div>
    );
  });
}

function OwnFields({ fields, onChange }: { fields: OwnField[]; onChange: (fields: OwnField[]) => void }) {
  const change = (index: number, part: Partial<OwnField>) =>
    onChange(fields.map((field, position) => (position === index ? { ...field, ...part } : field)));
  return (
    <>
      {fields.map((field, index) => (
        <div key={index} className="credential-own">
          <input
            className="input mono"
            aria-label={`Name of field ${index + 1}`}
            placeholder="Field"
            value={field.name}
            onChange={(event) => change(index, { name: event.target.value })}
          />
          <input
            className="input"
            type="password"
            autoComplete="new-password"
            aria-label={`Value of field ${index + 1}`}
            placeholder="Value"
            value={field.value}
            onChange={(event) => change(index, { value: event.target.value })}
          />
          <IconButton
            isSmall
            icon="close"
            label={`Remove field ${index + 1}`}
            onClick={() => onChange(fields.filter((_, position) => position !== index))}
          />
        </div>
      ))}
      <p>
        <Button isSmall look="quiet" onClick={() => onChange([...fields, { name: "", value: "" }])}>
          Add another field
        </Button>
      </p>
    </>
  );
}
