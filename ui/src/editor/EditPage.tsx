// The pages that change a playbook and that write a new one.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { playbookQuery } from "../api/queries";
import { ProblemNote } from "../parts/ProblemNote";
import { Page } from "../shell/Page";
import { StartDialog } from "../playbooks/StartDialog";
import { newPath } from "./drafts";
import { EditorView } from "./EditorView";
import { RetryNote } from "./RetryNote";
import { starterText } from "./text";

const editRoute = getRouteApi("/playbooks/$path/edit");

export function EditPage() {
  const { path } = editRoute.useParams();
  const { version, line, run, dialog, pane } = editRoute.useSearch();
  const navigate = editRoute.useNavigate();
  const { data, error, refetch } = useQuery(playbookQuery(path, version));
  const { data: latest } = useQuery(playbookQuery(path));
  const [savedVersion, setSavedVersion] = useState<number | null>(null);
  if (!data) {
    return <Page title={`Edit ${path}`}>{error && <ProblemNote error={error} onRetry={() => void refetch()} />}</Page>;
  }
  return (
    <>
      <EditorView
        key={`${path} ${version ?? "latest"}`}
        path={path}
        initial={{ text: data.content ?? "", version: data.version }}
        latestVersion={latest?.version ?? data.version}
        line={line}
        pane={pane ?? "text"}
        note={run !== undefined && savedVersion !== null && <RetryNote run={run} version={savedVersion} />}
        onPane={(next) => void navigate({ search: (search) => ({ ...search, pane: next }), replace: true })}
        onLine={(next) => void navigate({ search: (search) => ({ ...search, line: next }), replace: true })}
        onSaved={(saved, isRun) => {
          setSavedVersion(saved.version);
          // The page shows the newest version from now on.
          void navigate({
            search: ({ version: _old, ...search }) => (isRun ? { ...search, dialog: "run" as const } : search),
            replace: true,
            ignoreBlocker: true,
          });
        }}
        onRun={() => void navigate({ search: (search) => ({ ...search, dialog: "run" as const }) })}
      />
      {dialog === "run" && (
        <StartDialog
          path={path}
          version={savedVersion ?? data.version}
          onClose={() =>
            void navigate({ search: ({ dialog: _closed, ...search }) => search, replace: true, ignoreBlocker: true })
          }
        />
      )}
    </>
  );
}

const newRoute = getRouteApi("/playbooks/new");

export function NewPlaybookPage() {
  const { pane, line } = newRoute.useSearch();
  const navigate = newRoute.useNavigate();
  return (
    <EditorView
      path={newPath}
      initial={{ text: starterText, version: null }}
      latestVersion={null}
      line={line}
      pane={pane ?? "text"}
      onPane={(next) => void navigate({ search: (search) => ({ ...search, pane: next }), replace: true })}
      onLine={(next) => void navigate({ search: (search) => ({ ...search, line: next }), replace: true })}
      onSaved={({ path }, isRun) =>
        void navigate({
          to: "/playbooks/$path/edit",
          params: { path },
          search: isRun ? { dialog: "run" as const } : {},
          replace: true,
          ignoreBlocker: true,
        })
      }
      onRun={() => undefined}
    />
  );
}
