// Registers a playbook from pasted text or a dropped file. The server checks the text while it is typed.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";
import { registerPlaybook } from "../api/actions";
import { ProblemList } from "../editor/ProblemList";
import { useValidation } from "../editor/useValidation";
import { Button } from "../parts/Button";
import { LazyCode } from "../parts/LazyCode";
import { Modal } from "../parts/Modal";
import { ProblemNote } from "../parts/ProblemNote";
import { showToast } from "../parts/toasts";

export function RegisterDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const fileRef = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [line, setLine] = useState<number>();
  const [isDropTarget, setIsDropTarget] = useState(false);
  const check = useValidation(text, false);
  const checked = check.isCurrent && text.trim() !== "" ? check.result : null;
  const diagnostics = useMemo(() => checked?.diagnostics ?? [], [checked]);
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
          <Button look="primary" disabled={!checked?.valid || register.isPending} onClick={() => register.mutate()}>
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
      <ProblemList diagnostics={diagnostics} isValid={checked?.valid ?? null} onPick={(picked) => setLine(picked)} />
      {(check.error ?? register.error) && <ProblemNote error={check.error ?? register.error} />}
    </Modal>
  );
}
