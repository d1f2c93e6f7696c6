// Registers a playbook from pasted text or a dropped file. The server checks the text while it is typed.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { registerPlaybook, validatePlaybook } from "../api/actions";
import type { Diagnostic } from "../api/types";
import { Button } from "../parts/Button";
import { LazyCode } from "../parts/LazyCode";
import { Modal } from "../parts/Modal";
import { ProblemNote } from "../parts/ProblemNote";
import { MarkIcon } from "../parts/StatusMark";
import { showToast } from "../parts/toasts";
import { useSettled } from "../parts/useSettled";

export function RegisterDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const fileRef = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [line, setLine] = useState<number>();
  const [isDropTarget, setIsDropTarget] = useState(false);
  const checked = useSettled(text);
  const check = useQuery({
    queryKey: ["validation", checked],
    queryFn: () => validatePlaybook(checked),
    enabled: checked.trim() !== "",
  });
  const isCurrent = checked === text && text.trim() !== "" && check.isSuccess;
  const diagnostics = isCurrent ? (check.data.diagnostics as unknown as Diagnostic[]) : [];
  const register = useMutation({
    mutationFn: () => registerPlaybook(text),
    onSuccess: ({ path, version }) => {
      showToast({ tone: "done", text: `Registered ${path}@${version}` });
      void client.invalidateQueries({ queryKey: ["catalog"] });
      void client.invalidateQueries({ queryKey: ["playbook", path] });
      void navigate({ to: "/playbooks/$path", params: { path } });
    },
  });
  const readFile = async (file: File | undefined) => {
    if (file) setText(await file.text());
  };

  return (
    <Modal
      title="Register a playbook"
      description="Paste the YAML or drop a file. Registering the same text again keeps its version."
      isWide
      onClose={onClose}
      foot={
        <>
          <Button onClick={() => fileRef.current?.click()}>Choose a file…</Button>
          <input
            ref={fileRef}
            type="file"
            accept=".yaml,.yml"
            hidden
            aria-label="Playbook file"
            onChange={(event) => void readFile(event.target.files?.[0])}
          />
          <span className="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button
            look="primary"
            disabled={!isCurrent || !check.data.valid || register.isPending}
            onClick={() => register.mutate()}
          >
            Register
          </Button>
        </>
      }
    >
      <div
        className="register-editor"
        data-drop={isDropTarget || undefined}
        onDragOver={(event) => {
          event.preventDefault();
          setIsDropTarget(true);
        }}
        onDragLeave={() => setIsDropTarget(false)}
        onDropCapture={(event) => {
          const file = event.dataTransfer.files[0];
          setIsDropTarget(false);
          if (!file) return;
          event.preventDefault();
          event.stopPropagation();
          void readFile(file);
        }}
      >
        <LazyCode text={text} label="Playbook" onChange={setText} line={line} diagnostics={diagnostics} />
      </div>
      <DiagnosticList
        diagnostics={diagnostics}
        isValid={isCurrent ? check.data.valid : null}
        onPick={(picked) => setLine(picked)}
      />
      {(check.error ?? register.error) && <ProblemNote error={check.error ?? register.error} />}
    </Modal>
  );
}

interface DiagnosticListProps {
  diagnostics: Diagnostic[];
  /** Null while the text is not checked. */
  isValid: boolean | null;
  onPick: (line: number) => void;
}

function DiagnosticList({ diagnostics, isValid, onPick }: DiagnosticListProps) {
  if (isValid === null) return null;
  if (diagnostics.length === 0) {
    return (
      <p className="row tone-done" role="status">
        <MarkIcon mark="done" /> No problems found
      </p>
    );
  }
  return (
    <ul className="diagnostics" aria-label="Problems">
      {diagnostics.map((diagnostic, index) => (
        <li key={index}>
          <button type="button" className="diagnostic" onClick={() => onPick(diagnostic.line ?? 1)}>
            <MarkIcon mark={diagnostic.severity === "error" ? "failed" : "waiting"} />
            <span className="visually-hidden">{diagnostic.severity}</span>
            <span className="mono muted">
              {diagnostic.line}:{diagnostic.column}
            </span>
            <span className="mono">{diagnostic.code}</span>
            <span className="grow">
              {diagnostic.message}
              {diagnostic.label && <span className="muted"> {diagnostic.label}</span>}
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}
