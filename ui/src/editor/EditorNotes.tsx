// What a person should know about the text: that a draft was restored, that another version exists, that it is
// read-only.
import { Link } from "@tanstack/react-router";
import { Button } from "../parts/Button";
import { Age } from "../parts/Time";
import type { DraftState } from "./useDraft";

interface EditorNotesProps {
  path: string;
  draft: DraftState;
  latestVersion: number | null;
  mayAuthor: boolean;
}

export function EditorNotes({ path, draft, latestVersion, mayAuthor }: EditorNotesProps) {
  const { restored, saved, isKept, isChanged } = draft;
  const base = restored?.version ?? saved.version;
  const isOld = base !== null && latestVersion !== null && base < latestVersion && (isChanged || restored === null);
  return (
    <>
      {!mayAuthor && (
        <p className="editor-note">
          This text is read-only, because only authors can save playbooks. Sign in with a token of the role author to
          change it.
        </p>
      )}
      {restored && (
        <div className="editor-note row">
          <span className="grow">
            Your unsaved changes of <Age at={restored.savedAt} /> were restored
            {restored.version !== null && <> on top of version {restored.version}</>}.
          </span>
          <Button isSmall onClick={draft.discard}>
            Discard changes
          </Button>
        </div>
      )}
      {isOld && (
        <p className="editor-note">
          This text is based on version {base}. Version {latestVersion} is newer, and saving replaces it.{" "}
          <Link to="/playbooks/$path" params={{ path }} search={{}}>
            Show version {latestVersion}
          </Link>
        </p>
      )}
      {!isKept && (
        <p className="editor-note">
          The browser cannot keep this draft. Save a version before you leave the page, or copy the text.
        </p>
      )}
    </>
  );
}
