// Labels in the filter of runs: `key:value` pairs, separated by commas, as the API reads them.

/** The pairs of a filter; a backslash escapes a comma in a value. */
export function splitLabels(text: string): string[] {
  const pairs: string[] = [];
  let pair = "";
  for (let index = 0; index < text.length; index += 1) {
    const isEscape = text[index] === "\\" && index + 1 < text.length;
    if (isEscape) index += 1;
    if (text[index] === "," && !isEscape) {
      pairs.push(pair);
      pair = "";
    } else {
      pair += text[index] ?? "";
    }
  }
  return [...pairs, pair].map((part) => part.trim()).filter(Boolean);
}

export function joinLabels(pairs: string[]): string {
  return pairs.map((pair) => pair.replaceAll("\\", "\\\\").replaceAll(",", "\\,")).join(",");
}

/** The filter with a label; it replaces a label with the same key, because no run has two values of one key. */
export function addLabel(text: string | undefined, key: string, value: string): string {
  const others = splitLabels(text ?? "").filter((pair) => !pair.startsWith(`${key}:`));
  return joinLabels([...others, `${key}:${value}`]);
}

export function removeLabel(text: string, pair: string): string {
  return joinLabels(splitLabels(text).filter((other) => other !== pair));
}
