// Which texts are pages of the client, and when the session is read again.
import { expect, test } from "vitest";
import { isPagePath, sessionReadDelay } from "./signIn";

test("only paths of the client are pages", () => {
  for (const path of ["/", "/runs", "/runs/7?tab=logs&q=a%20b"]) expect(isPagePath(path), path).toBe(true);
  const others = ["", "runs", "//evil.example", "/\\evil.example", "https://evil.example", "/sign-in", "/a b", "/a\nb"];
  for (const text of others) expect(isPagePath(text), text).toBe(false);
});

test("the session is read again at its end, but not all the time", () => {
  const now = Date.parse("2020-01-01T00:00:00Z");
  expect(sessionReadDelay("2020-01-01T01:00:00Z", now)).toBe(3_600_000);
  expect(sessionReadDelay("2019-01-01T00:00:00Z", now)).toBe(30_000);
  expect(sessionReadDelay("2120-01-01T00:00:00Z", now)).toBe(2 ** 31 - 1);
  expect(sessionReadDelay(null, now)).toBe(false);
});
