// Which texts are pages of the client.
import { expect, test } from "vitest";
import { isPagePath } from "./signIn";

test("only paths of the client are pages", () => {
  for (const path of ["/", "/runs", "/runs/7?tab=logs&q=a%20b"]) expect(isPagePath(path), path).toBe(true);
  const others = ["", "runs", "//evil.example", "/\\evil.example", "https://evil.example", "/sign-in", "/a b", "/a\nb"];
  for (const text of others) expect(isPagePath(text), text).toBe(false);
});
