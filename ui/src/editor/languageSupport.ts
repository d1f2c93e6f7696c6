// Completion and hover texts in the editor. The server computes them from the text and the position.
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  startCompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import type { EditorState, Extension } from "@codemirror/state";
import { EditorView, hoverTooltip, keymap, type Tooltip } from "@codemirror/view";
import { completeText, describeWord } from "../api/actions";
import type { CompletionEntry, HoverText } from "../api/types";
import { toUnitColumn, toCharacterColumn } from "./columns";

/** From this length on, completions are requested only with Ctrl-Space, because each request sends the text. */
const implicitLengthMax = 200_000;
const hoverMs = 400;

const types: Record<CompletionEntry["kind"], string> = {
  key: "property",
  value: "enum",
  name: "variable",
  filter: "function",
  test: "keyword",
  function: "function",
};

function locate(state: EditorState, position: number) {
  const line = state.doc.lineAt(position);
  return {
    line,
    request: {
      text: state.doc.toString(),
      line: line.number,
      column: toCharacterColumn(line.text, position - line.from),
    },
  };
}

async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const { state, pos, explicit } = context;
  if (!explicit && (state.doc.length > implicitLengthMax || !context.matchBefore(/[\w.|{-]\s?$/))) return null;
  const { line, request } = locate(state, pos);
  try {
    const response = await completeText(request);
    if (context.aborted || response.completions.length === 0) return null;
    return {
      from: line.from + toUnitColumn(line.text, response.start_column),
      options: response.completions.map(toOption),
      ...(response.is_complete ? { validFor: /^[\w./@-]*$/ } : {}),
    };
  } catch {
    // The next key tries again; the check of the text reports what is wrong with the connection.
    return null;
  }
}

function toOption({ label, kind, detail, documentation, insert }: CompletionEntry, index: number): Completion {
  return {
    label,
    type: types[kind],
    detail,
    ...(documentation ? { info: documentation } : {}),
    boost: -index / 10,
    apply: (view, _completion, from, to) => {
      view.dispatch({
        changes: { from, to, insert },
        selection: { anchor: from + insert.length },
        userEvent: "input.complete",
      });
      // After a key, its value is completed.
      if (/[\s]$/.test(insert)) startCompletion(view);
    },
  };
}

async function describe(view: EditorView, position: number): Promise<Tooltip | null> {
  const { line, request } = locate(view.state, position);
  try {
    const { hover } = await describeWord(request);
    if (!hover) return null;
    return {
      pos: line.from + toUnitColumn(line.text, hover.start_column),
      end: line.from + toUnitColumn(line.text, hover.end_column),
      above: true,
      create: () => ({ dom: drawHover(hover) }),
    };
  } catch {
    return null;
  }
}

function drawHover(hover: HoverText): HTMLElement {
  const box = document.createElement("div");
  box.className = "cm-hoverText";
  const addLine = (text: string, className: string) => {
    const line = document.createElement("p");
    line.className = className;
    line.textContent = text;
    box.append(line);
  };
  addLine(hover.title, "cm-hoverTitle");
  addLine(hover.documentation, "");
  if (hover.values.length > 0) addLine(`Values: ${hover.values.join(", ")}`, "cm-hoverFact");
  if (hover.default) addLine(`Default: ${hover.default}`, "cm-hoverFact");
  return box;
}

const theme = EditorView.theme({
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { font: "400 12px/18px var(--mono)", maxHeight: "14em" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--selected)", color: "var(--text)" },
  ".cm-completionDetail": { fontStyle: "normal", color: "var(--muted)" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-tooltip.cm-completionInfo": { padding: "6px 8px", font: "400 13px/20px var(--font)", maxWidth: "320px" },
  ".cm-hoverText": { padding: "6px 8px", maxWidth: "420px", font: "400 13px/20px var(--font)" },
  ".cm-hoverText p": { margin: "0" },
  ".cm-hoverTitle": { font: "600 12px/18px var(--mono)" },
  ".cm-hoverFact": { color: "var(--muted)" },
});

/** Hover texts, for every reader. */
export const hoverTexts: Extension = [hoverTooltip(describe, { hoverTime: hoverMs }), theme];

/** Completion, for authors. */
export const completion: Extension = [
  autocompletion({ override: [complete], icons: false, activateOnTypingDelay: 120 }),
  closeBrackets(),
  keymap.of(closeBracketsKeymap),
];
