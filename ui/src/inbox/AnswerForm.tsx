// The form that answers a wait: fields from the schema, one button for each choice, and the command that does the same.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { sendSignal } from "../api/actions";
import type { InboxChoice, InboxEntry, InputSchema } from "../api/types";
import { signalCommand } from "../lib/cli";
import { isObject, parseExact, writeExact, type ExactObject } from "../lib/exactJson";
import { listFields, writeShown } from "../lib/inputs";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/copy";
import { emptyDraft, InputForm, readInputs, type InputDraft } from "../parts/InputForm";
import { ProblemNote } from "../parts/ProblemNote";
import { showToast } from "../parts/toasts";
import { useMay } from "../shell/role";
import { waitTitle } from "./waitView";

export function AnswerForm({ wait }: { wait: InboxEntry }) {
  const client = useQueryClient();
  const mayOperate = useMay("operator");
  const schema = (wait.form ?? {}) as InputSchema;
  const [draft, setDraft] = useState<InputDraft>({ ...emptyDraft, mode: wait.form ? "form" : "json" });
  const values = readValues(schema, draft);
  const send = useMutation({
    mutationFn: (choice: InboxChoice) => sendSignal(wait.execution_id, wait.signal, withChoice(values ?? "{}", choice)),
    onSuccess: (_, choice) => {
      showToast({ tone: "done", text: `${choice.label}: sent to ${waitTitle(wait)}` });
      void client.invalidateQueries({ queryKey: ["inbox"] });
    },
  });

  return (
    <div className="inbox-answer">
      {mayOperate ? (
        <>
          <InputForm
            schema={schema}
            draft={draft}
            onChange={setDraft}
            title={wait.form ? "Decision" : "Payload"}
            none="This decision needs no values."
            isJsonOnly={!wait.form}
          />
          {!wait.is_next && <LaterNote wait={wait} />}
          {send.error && <ProblemNote error={send.error} />}
          <div className="row inbox-buttons">
            {wait.choices.map((choice, index) => (
              <Button
                key={choice.label}
                look={index === 0 ? "primary" : "plain"}
                disabled={send.isPending || send.isSuccess || values === null || !wait.is_next}
                onClick={() => send.mutate(choice)}
              >
                {choice.label}
              </Button>
            ))}
          </div>
        </>
      ) : (
        <p className="muted">Your role can read this wait. To answer it, you need the role operator.</p>
      )}
      <div className="row inbox-commands">
        {wait.choices.map((choice) => (
          <CopyButton
            key={choice.label}
            text={commandFor(wait, choice, values ?? "{}")}
            what={`the command for ${choice.label}`}
          >
            Copy CLI: {choice.label}
          </CopyButton>
        ))}
      </div>
    </div>
  );
}

/** Signals go to the task of the run that has waited longest. */
function LaterNote({ wait }: { wait: InboxEntry }) {
  return (
    <p className="tone-waiting">
      Another task of this run has waited longer for the signal {wait.signal} and gets it first.{" "}
      <Link to="/inbox" search={{ run: wait.execution_id, signal: wait.signal, order: "oldest" }}>
        Show it
      </Link>
    </p>
  );
}

/** The values that the form shows, as a JSON object; null if a field cannot be read. */
function readValues(schema: InputSchema, draft: InputDraft): string | null {
  const changed = readInputs(schema, {}, draft);
  if (changed === null || draft.mode === "json") return changed;
  return writeShown(listFields(schema), draft.texts);
}

function withChoice(values: string, choice: InboxChoice): string {
  const given = parseExact(values);
  return writeExact({ ...(isObject(given) ? given : {}), ...(choice.payload as ExactObject) });
}

function commandFor(wait: InboxEntry, choice: InboxChoice, values: string): string {
  if (values === "{}") return choice.command;
  return signalCommand(wait.execution_id, wait.signal, withChoice(values, choice));
}
