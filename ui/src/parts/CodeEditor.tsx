// YAML in CodeMirror: read-only or editable, with marked lines and diagnostics. The editor lives in a shadow root,
// where CodeMirror adopts style sheets; in the document it would add a <style> element that the policy blocks.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics, lintGutter } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import type { Diagnostic } from "../api/types";
import { markedLines, setMarkedLine } from "./markedLines";
import "./code.css";

interface CodeEditorProps {
  text: string;
  label: string;
  /** Called with the text after each change; without it the text cannot be changed. */
  onChange?: (text: string) => void;
  /** A line that is scrolled to and marked, from 1. */
  line?: number | undefined;
  diagnostics?: Diagnostic[];
  /** What a view adds to the editor; read when the editor is made. */
  extensions?: Extension;
  /** Called with the editor once it is made. */
  onReady?: (view: EditorView) => void;
}

export default function CodeEditor(props: CodeEditorProps) {
  const { text, label, onChange, line, diagnostics, extensions, onReady } = props;
  const hostRef = useRef<HTMLDivElement>(null);
  const viewRef = useRef<EditorView>(null);
  const onChangeRef = useRef(onChange);
  onChangeRef.current = onChange;
  const isEditable = onChange !== undefined;

  useEffect(() => {
    const host = hostRef.current;
    if (!host) return undefined;
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const view = new EditorView({
      root,
      parent: root,
      doc: text,
      extensions: [
        extensions ?? [],
        isEditable ? editing : [EditorState.readOnly.of(true), EditorView.editable.of(false)],
        basics,
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChangeRef.current?.(update.state.doc.toString());
        }),
      ],
    });
    viewRef.current = view;
    if (isEditable) view.focus();
    onReady?.(view);
    return () => view.destroy();
    // The text is replaced below; a new editor is made only for another kind of it.
  }, [isEditable, label]);

  useEffect(() => {
    const view = viewRef.current;
    if (!view || view.state.doc.toString() === text) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
  }, [text]);

  useEffect(() => {
    const view = viewRef.current;
    if (!view) return;
    const isKnown = line !== undefined && line >= 1 && line <= view.state.doc.lines;
    const effects = [setMarkedLine.of(isKnown ? line : null)];
    const position = isKnown ? view.state.doc.line(line).from : 0;
    view.dispatch({ effects: isKnown ? [...effects, EditorView.scrollIntoView(position, { y: "center" })] : effects });
  }, [line, text]);

  useEffect(() => {
    const view = viewRef.current;
    if (view && diagnostics)
      view.dispatch(
        setDiagnostics(
          view.state,
          diagnostics.map((item) => place(view.state, item)),
        ),
      );
  }, [diagnostics]);

  return <div ref={hostRef} className="code" />;
}

function place(state: EditorState, { line = 1, column = 1, severity, code, message, label }: Diagnostic) {
  const target = state.doc.line(Math.max(1, Math.min(line, state.doc.lines)));
  const from = Math.min(target.to, target.from + Math.max(0, column - 1));
  const end = /^[\w-]+/.exec(target.text.slice(from - target.from))?.[0].length ?? 1;
  return {
    from,
    to: Math.min(target.to, from + end),
    severity: severity === "error" ? ("error" as const) : ("warning" as const),
    message: `${code}: ${message}${label ? `\n${label}` : ""}`,
  };
}

const colors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--running)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--success)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--cancelled)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--muted)" },
  { tag: [tags.punctuation, tags.separator], color: "var(--muted)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--panel)", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { font: "400 12px/18px var(--mono)", fontVariantLigatures: "none" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--muted)", borderRight: "1px solid var(--border)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent) !important",
  },
  ".cm-markedLine": { backgroundColor: "var(--failed-tint)", boxShadow: "inset 3px 0 var(--failed)" },
  ".cm-panels": { backgroundColor: "var(--panel)", color: "var(--text)", borderColor: "var(--border)" },
  ".cm-panel input, .cm-panel button": { font: "400 12px/18px var(--font)" },
  ".cm-textfield": { backgroundColor: "var(--page)", color: "var(--text)", border: "1px solid var(--border-strong)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--page)", color: "var(--text)" },
  ".cm-searchMatch": { backgroundColor: "color-mix(in srgb, var(--waiting) 30%, transparent)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--border)" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", font: "400 13px/20px var(--font)" },
});

const basics: Extension = [
  lineNumbers(),
  drawSelection(),
  highlightActiveLine(),
  highlightSelectionMatches(),
  search({ top: true }),
  yaml(),
  syntaxHighlighting(colors),
  markedLines,
  theme,
  keymap.of([...searchKeymap, ...defaultKeymap]),
];

const editing: Extension = [history(), lintGutter(), keymap.of([...historyKeymap, indentWithTab])];
