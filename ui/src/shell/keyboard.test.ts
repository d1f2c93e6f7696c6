import { describe, expect, it } from "vitest";
import { findBinding, nameKey } from "./keyboard";

const bind = (keys: string, label = keys) => ({ keys, label, run: () => undefined });

describe("keyboard", () => {
  it("names keys", () => {
    expect(nameKey({ key: "K", metaKey: false, ctrlKey: true })).toBe("mod+k");
    expect(nameKey({ key: "?", metaKey: false, ctrlKey: false })).toBe("?");
    expect(nameKey({ key: "Enter", metaKey: false, ctrlKey: false })).toBe("enter");
  });

  it("finds sequences", () => {
    const bindings = [bind("g r"), bind("g h"), bind("j")];
    expect(findBinding(bindings, "g")).toEqual({ isPrefix: true });
    expect(findBinding(bindings, "g r").binding?.keys).toBe("g r");
    expect(findBinding(bindings, "x")).toEqual({ isPrefix: false });
  });

  it("prefers the newest binding of a key", () => {
    expect(findBinding([bind("/", "first"), bind("/", "second")], "/").binding?.label).toBe("second");
  });
});
