// Tests of the state of the inbox in the URL.
import { expect, test } from "vitest";
import { readInboxView, runOfWait, toInboxParams, waitKey, waitPlace, waitTitle } from "./waitView";

test("the URL holds the filters and the selected wait", () => {
  const view = readInboxView({ path: "demo/a", run: "7", order: "sideways", wait: "7:5", color: "red" });
  expect(view).toEqual({ path: "demo/a", run: "7", wait: "7:5" });
  expect(toInboxParams(view)).toEqual({ path: "demo/a", execution_id: "7" });
});

test("a wait is named by its run and its event", () => {
  const key = waitKey({ execution_id: "248316791514726400", seq: 5 });
  expect(key).toBe("248316791514726400:5");
  expect(runOfWait(key)).toBe("248316791514726400");
});

test("a wait has a place and a title", () => {
  expect(waitPlace({ step: "ask", iteration: 3, task: "decision" })).toBe("ask#3/decision");
  expect(waitPlace({ step: "ask", iteration: null, task: null })).toBe("ask");
  expect(waitTitle({ title: "Ship it?", kind: "approval", signal: "go" })).toBe("Ship it?");
  expect(waitTitle({ title: null, kind: "signal", signal: "go" })).toBe("Signal go");
});
