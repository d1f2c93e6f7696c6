// The editor of a playbook: text, live graph, problems, and the actions that save and run it.
import { keymap, EditorView as CodeView } from "@codemirror/view";
import { Prec } from "@codemirror/state";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { registerPlaybook } from "../api/actions";
import type { Diagnostic, PlaybookGraph } from "../api/types";
import { registerCommand } from "../lib/cli";
import { Button } from "../parts/Button";
import CodeEditor from "../parts/CodeEditor";
import { CopyButton } from "../parts/copy";
import { ProblemNote } from "../parts/ProblemNote";
import { showToast } from "../parts/toasts";
import { useKeys } from "../shell/keyboard";
import { Page } from "../shell/Page";
import { usePaletteActions } from "../shell/paletteActions";
import { useMay } from "../shell/role";
import { toUnitColumn } from "./columns";
import { EditorNotes } from "./EditorNotes";
import { completion, hoverTexts } from "./languageSupport";
import { LeaveGuard } from "./LeaveGuard";
import { ProblemList } from "./ProblemList";
import { findStepAt } from "./text";
import { useDraft, type DraftState, type SavedText } from "./useDraft";
import { useValidation } from "./useValidation";
import "./editor.css";

const EditorGraph = lazy(() => import("./EditorGraph"));

export type Pane = "text" | "graph";

interface EditorViewProps {
  /** Catalog path; empty for a new playbook. */
  path: string;
  initial: SavedText;
  latestVersion: number | null;
  /** The line at which the editor opens. */
  line: number | undefined;
  /** What a narrow window shows. */
  pane: Pane;
  note?: React.ReactNode;
  onPane: (pane: Pane) => void;
  onLine: (line: number) => void;
  /** Called after a version was saved; `isRun` if a run shall follow. */
  onSaved: (saved: { path: string; version: number }, isRun: boolean) => void;
  onRun: () => void;
}

const noDiagnostics: Diagnostic[] = [];

export function EditorView(props: EditorViewProps) {
  const { path, initial, latestVersion, pane, note, onPane, onRun } = props;
  const mayAuthor = useMay("author");
  const mayOperate = useMay("operator");
  const draft = useDraft(path, initial, mayAuthor);
  const { text, isChanged } = draft;
  const check = useValidation(text, true);
  const graph = useLastGraph(check.result?.graph);
  const diagnostics = check.result?.diagnostics ?? noDiagnostics;
  const save = useSave(props, text, draft.markSaved);
  const isNew = path === "";
  const isInvalid = check.isCurrent && !check.result?.valid;
  const canSave = mayAuthor && (isChanged || isNew) && !isInvalid && !save.isPending;
  const runSave = (isRun: boolean) => canSave && save.mutate(isRun);
  // Changes that cannot be saved are not run either.
  const canRun = mayOperate && (canSave || (!isChanged && !isNew));
  const runPlaybook = () => canRun && (canSave ? runSave(true) : onRun());
  const code = useCode(props.line, { onSave: () => runSave(false), onRun: runPlaybook });
  const actions = [
    ...(mayAuthor ? [{ keys: "mod+s", label: "Save as a new version", run: () => runSave(false) }] : []),
    ...(mayOperate ? [{ keys: "mod+enter", label: "Save and run", run: runPlaybook }] : []),
  ];
  useKeys("Editor", actions);
  usePaletteActions("Editor", actions);
  const jump = (line: number, column = 1) => {
    props.onLine(line);
    onPane("text");
    code.jump(line, column);
  };

  return (
    <Page
      title={isNew ? "New playbook" : `Edit ${path}`}
      actions={
        <>
          {mayOperate && (
            <Button disabled={!canRun} onClick={runPlaybook}>
              Run…
            </Button>
          )}
          {mayAuthor && (
            <Button look="primary" disabled={!canSave} onClick={() => runSave(false)}>
              {save.isPending ? "Saving…" : "Save version"}
            </Button>
          )}
        </>
      }
    >
      <EditorFacts path={path} draft={draft} pane={pane} onPane={onPane} />
      <EditorNotes path={path} draft={draft} latestVersion={latestVersion} mayAuthor={mayAuthor} />
      {note}
      {save.error && <ProblemNote error={save.error} />}
      <div className="editor-panes" data-pane={pane}>
        <div className="editor-text">
          <CodeEditor
            text={text}
            label={isNew ? "New playbook" : `Playbook ${path}`}
            {...(mayAuthor ? { onChange: draft.setText } : {})}
            diagnostics={diagnostics}
            extensions={code.extensions}
            onReady={code.onReady}
          />
        </div>
        <div className="editor-graph" data-old={(check.isCurrent && !check.result?.graph) || undefined}>
          <Suspense>
            {graph && <EditorGraph graph={graph} selected={findStepAt(graph.steps, code.line)} onPick={jump} />}
          </Suspense>
          {graph && check.isCurrent && !check.result?.graph && (
            <p className="editor-graph-note">The graph shows the last text that could be read.</p>
          )}
        </div>
      </div>
      <div className="editor-problems" aria-live="polite">
        {check.error ? (
          <ProblemNote error={check.error} />
        ) : (
          <ProblemList diagnostics={diagnostics} isValid={check.result?.valid ?? null} onPick={jump} />
        )}
      </div>
      <LeaveGuard isChanged={isChanged} onKeep={draft.keep} onDiscard={draft.discard} />
    </Page>
  );
}

interface EditorFactsProps {
  path: string;
  draft: DraftState;
  pane: Pane;
  onPane: (pane: Pane) => void;
}

function EditorFacts({ path, draft, pane, onPane }: EditorFactsProps) {
  const { version } = draft.saved;
  return (
    <p className="editor-facts run-facts muted">
      {version === null ? (
        <span>not saved yet</span>
      ) : (
        <Link to="/playbooks/$path" params={{ path }} search={{ version }} className="mono">
          {path}@{version}
        </Link>
      )}
      <span>{draft.isChanged ? "unsaved changes" : version !== null && "no unsaved changes"}</span>
      <CopyButton text={registerCommand(path)} what="the command">
        Copy CLI
      </CopyButton>
      <CopyButton text={window.location.href} what="the link">
        Copy link
      </CopyButton>
      <span className="editor-pane-switch">
        {(["text", "graph"] as const).map((name) => (
          <Button key={name} isSmall aria-pressed={pane === name} onClick={() => onPane(name)}>
            {name === "text" ? "Text" : "Graph"}
          </Button>
        ))}
      </span>
    </p>
  );
}

/** The newest graph: while a text cannot be read, the one before. */
function useLastGraph(graph: PlaybookGraph | null | undefined): PlaybookGraph | null {
  const [last, setLast] = useState<PlaybookGraph | null>(null);
  useEffect(() => {
    if (graph) setLast(graph);
  }, [graph]);
  return graph ?? last;
}

/** Saves the text as a version, and tells whether it is a new one. */
function useSave(props: EditorViewProps, text: string, markSaved: (saved: SavedText) => void) {
  const { path, latestVersion, onSaved } = props;
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (_isRun: boolean) => {
      const saved = await registerPlaybook(text, path === "" ? undefined : path);
      return { ...saved, isUnchanged: saved.version === latestVersion };
    },
    onSuccess: async (saved, isRun) => {
      markSaved({ text, version: saved.version });
      showToast({
        tone: "done",
        text: saved.isUnchanged
          ? `The text is unchanged: it is still ${saved.path}@${saved.version}`
          : `Saved ${saved.path}@${saved.version}`,
      });
      const keys = [["catalog"], ["playbook", saved.path]];
      await Promise.all(keys.map((queryKey) => client.invalidateQueries({ queryKey })));
      onSaved(saved, isRun);
    },
  });
}

interface CodeHandlers {
  onSave: () => void;
  onRun: () => void;
}

/** What the page adds to the code editor, the line of the cursor, and a way to move it. */
function useCode(openAt: number | undefined, handlers: CodeHandlers) {
  const viewRef = useRef<CodeView>(null);
  const handlersRef = useRef(handlers);
  handlersRef.current = handlers;
  const openAtRef = useRef(openAt);
  const [line, setLine] = useState(openAt ?? 1);
  const jump = useCallback((target: number, column: number) => {
    const view = viewRef.current;
    if (!view) return;
    const row = view.state.doc.line(Math.max(1, Math.min(target, view.state.doc.lines)));
    const position = row.from + toUnitColumn(row.text, column);
    view.dispatch({
      selection: { anchor: position },
      effects: CodeView.scrollIntoView(position, { y: "center" }),
    });
    view.focus();
  }, []);
  const onReady = useCallback(
    (view: CodeView) => {
      viewRef.current = view;
      if (openAtRef.current !== undefined) jump(openAtRef.current, 1);
    },
    [jump],
  );
  const extensions = useMemo(() => {
    const call = (name: keyof CodeHandlers) => () => {
      handlersRef.current[name]();
      return true;
    };
    return [
      Prec.highest(
        keymap.of([
          { key: "Mod-s", run: call("onSave") },
          { key: "Mod-Enter", run: call("onRun") },
        ]),
      ),
      completion,
      hoverTexts,
      CodeView.updateListener.of(({ state, selectionSet }) => {
        if (selectionSet) setLine(state.doc.lineAt(state.selection.main.head).number);
      }),
    ];
  }, []);
  return { line, jump, onReady, extensions };
}
