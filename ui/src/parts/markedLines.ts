// A line of an editor that is marked, such as the line that failed.
import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, type DecorationSet } from "@codemirror/view";

/** Marks a line, from 1; null removes the mark. */
export const setMarkedLine = StateEffect.define<number | null>();

const mark = Decoration.line({ class: "cm-markedLine" });

export const markedLines = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    let next = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(setMarkedLine)) continue;
      const { doc } = transaction.state;
      next = effect.value === null ? Decoration.none : Decoration.set([mark.range(doc.line(effect.value).from)]);
    }
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});
