// Colours in the output of tasks: the escape sequences of terminals as spans of text with style names.

export interface AnsiSpan {
  text: string;
  /** Class names for colour and weight; empty for plain text. */
  style: string;
}

const colors = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const sequence = /\u001b\[([0-9;]*)([A-Za-z])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g;

/** Splits a line at its colour sequences; other sequences are removed. */
export function parseAnsi(line: string): AnsiSpan[] {
  if (!line.includes("\u001b")) return [{ text: line, style: "" }];
  const spans: AnsiSpan[] = [];
  let style: AnsiStyle = {};
  let from = 0;
  for (const match of line.matchAll(sequence)) {
    addSpan(spans, line.slice(from, match.index), style);
    from = match.index + match[0].length;
    if (match[2] === "m") style = applyCodes(style, (match[1] ?? "").split(";").map(Number));
  }
  addSpan(spans, line.slice(from), style);
  return spans.length > 0 ? spans : [{ text: "", style: "" }];
}

/** The text of a line without any sequences. */
export function stripAnsi(line: string): string {
  return line.includes("\u001b") ? line.replace(sequence, "") : line;
}

interface AnsiStyle {
  color?: string;
  isBold?: boolean;
  isDim?: boolean;
  isUnderlined?: boolean;
}

function addSpan(spans: AnsiSpan[], text: string, style: AnsiStyle) {
  if (text) spans.push({ text, style: nameStyle(style) });
}

function nameStyle(style: AnsiStyle): string {
  return [
    style.color && `ansi-${style.color}`,
    style.isBold && "ansi-bold",
    style.isDim && "ansi-dim",
    style.isUnderlined && "ansi-underlined",
  ]
    .filter(Boolean)
    .join(" ");
}

function applyCodes(style: AnsiStyle, codes: number[]): AnsiStyle {
  let next = { ...style };
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    const color = colors[code % 10];
    if (code === 0) next = {};
    else if (code === 1) next.isBold = true;
    else if (code === 2) next.isDim = true;
    else if (code === 4) next.isUnderlined = true;
    else if (code === 22) next = { ...next, isBold: false, isDim: false };
    else if (code === 24) next.isUnderlined = false;
    else if (code === 39) delete next.color;
    else if (code === 38 || code === 48) index += codes[index + 1] === 5 ? 2 : 4;
    else if (color && ((code >= 30 && code <= 37) || (code >= 90 && code <= 97))) next.color = color;
  }
  return next;
}
