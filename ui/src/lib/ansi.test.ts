import { describe, expect, it } from "vitest";
import { parseAnsi, stripAnsi } from "./ansi";

describe("ANSI sequences", () => {
  it("leaves plain text alone", () => {
    expect(parseAnsi("plain")).toEqual([{ text: "plain", style: "" }]);
  });

  it("colours a part of a line", () => {
    expect(parseAnsi("\u001b[33mwarning\u001b[0m slow")).toEqual([
      { text: "warning", style: "ansi-yellow" },
      { text: " slow", style: "" },
    ]);
  });

  it("combines weight and bright colours, and resets them one by one", () => {
    expect(parseAnsi("\u001b[1;91mE\u001b[22m!\u001b[39m.")).toEqual([
      { text: "E", style: "ansi-red ansi-bold" },
      { text: "!", style: "ansi-red" },
      { text: ".", style: "" },
    ]);
  });

  it("skips colours of a palette, and removes cursor moves and links", () => {
    expect(parseAnsi("\u001b[38;5;208mx\u001b[2K")).toEqual([{ text: "x", style: "" }]);
    expect(stripAnsi("\u001b]8;;http://a\u0007link\u001b]8;;\u0007\u001b[31m!\u001b[m")).toBe("link!");
  });
});
