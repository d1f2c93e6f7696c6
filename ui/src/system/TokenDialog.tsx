// Creates an access token and shows it once, until the dialog is closed.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { createToken } from "../api/adminActions";
import type { Role } from "../api/types";
import { quoteArgument } from "../lib/cli";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { Modal } from "../parts/Modal";
import { ProblemNote } from "../parts/ProblemNote";

const roles: Record<Role, string> = {
  viewer: "read runs, results and logs",
  operator: "also start and control runs",
  author: "also register playbooks, which run as code",
  admin: "also manage tokens and credentials",
  worker: "only claim tasks and report on them",
};

const day = 24 * 3600;
const lifetimes = [
  { label: "1 day", flag: "1d", seconds: day },
  { label: "30 days", flag: "30d", seconds: 30 * day },
  { label: "90 days", flag: "90d", seconds: 90 * day },
  { label: "1 year", flag: "365d", seconds: 365 * day },
  { label: "does not expire", flag: "", seconds: undefined },
];

export function TokenDialog({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const nameId = useId();
  const roleId = useId();
  const lifetimeId = useId();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [lifetime, setLifetime] = useState(2);
  const { flag, seconds } = lifetimes[lifetime] ?? lifetimes[0]!;
  const create = useMutation({
    mutationFn: () => createToken(name.trim(), role, seconds),
    // The token must not stay in the cache of mutations.
    gcTime: 0,
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["access tokens"] });
      void client.invalidateQueries({ queryKey: ["audit"] });
    },
  });
  if (create.data) return <CreatedToken name={name.trim()} text={create.data.token} onClose={onClose} />;
  const expiry = flag ? ` --expires ${flag}` : "";
  const command = `noetl token create ${quoteArgument(name.trim() || "NAME")} --role ${role}${expiry}`;

  return (
    <Modal
      title="Create an access token"
      onClose={onClose}
      foot={
        <>
          <CopyButton text={command} what="the command">
            Copy CLI
          </CopyButton>
          <span className="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" disabled={name.trim() === "" || create.isPending} onClick={() => create.mutate()}>
            Create
          </Button>
        </>
      }
    >
      <div className="field">
        <label htmlFor={nameId}>Name</label>
        <input
          id={nameId}
          className="input"
          autoComplete="off"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <span className="field-hint">The audit log shows the name with each request.</span>
      </div>
      <div className="field">
        <label htmlFor={roleId}>Role</label>
        <select id={roleId} className="input" value={role} onChange={(event) => setRole(event.target.value as Role)}>
          {Object.entries(roles).map(([value, meaning]) => (
            <option key={value} value={value}>
              {value}: {meaning}
            </option>
          ))}
        </select>
      </div>
      <div className="field">
        <label htmlFor={lifetimeId}>Expires after</label>
        <select
          id={lifetimeId}
          className="input"
          value={lifetime}
          onChange={(event) => setLifetime(Number(event.target.value))}
        >
          {lifetimes.map(({ label }, index) => (
            <option key={label} value={index}>
              {label}
            </option>
          ))}
        </select>
      </div>
      {create.error && <ProblemNote error={create.error} />}
    </Modal>
  );
}

function CreatedToken({ name, text, onClose }: { name: string; text: string; onClose: () => void }) {
  return (
    <Modal
      title={`Token ${name}`}
      description="Copy the token now. It cannot be shown again."
      onClose={onClose}
      foot={<Button onClick={onClose}>I have saved it</Button>}
    >
      <p className="mono token-text" aria-label="Access token">
        {text}
      </p>
      <p>
        <CopySecret text={text} />
      </p>
    </Modal>
  );
}

/** Copies without a toast that would show the token. */
function CopySecret({ text }: { text: string }) {
  const [state, setState] = useState("Copy the token");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setState("Copied");
    } catch {
      setState("The browser did not allow to copy; select the text");
    }
  };
  return <Button onClick={() => void copy()}>{state}</Button>;
}
