import { describe, expect, it } from "vitest";
import {
  listRunsCommand,
  listWaitingRunsCommand,
  quoteArgument,
  registerCommand,
  showRunCommand,
  signalCommand,
  startRunCommand,
} from "./cli";

describe("CLI commands", () => {
  it("quotes what a shell would change", () => {
    expect(quoteArgument("demo/load@3")).toBe("demo/load@3");
    expect(quoteArgument("it's")).toBe("'it'\\''s'");
  });

  it("shows what a tab shows", () => {
    expect(showRunCommand("7")).toBe("noetl show 7");
    expect(showRunCommand("7", { tab: "graph", hasFailed: true })).toBe("noetl show 7 --failed");
    expect(showRunCommand("7", { tab: "logs", step: "a", task: "b" })).toBe("noetl logs 7 --step a --task b");
    expect(showRunCommand("7", { tab: "events", type: "task.done" })).toBe("noetl events 7 --type task.done");
    expect(showRunCommand("7", { tab: "results", step: "a" })).toBe("noetl result 7 a");
  });

  it("answers what a run waits for", () => {
    expect(signalCommand("7", "go", "{}")).toBe("noetl signal 7 go");
    expect(signalCommand("7", "it's on", '{"approved":true}')).toBe(
      `noetl signal 7 'it'\\''s on' --input '{"approved":true}'`,
    );
    expect(listWaitingRunsCommand({})).toBe("noetl runs --status running,paused");
    expect(listWaitingRunsCommand({ path: "demo/a" })).toBe("noetl runs --status running,paused --path demo/a");
    expect(listWaitingRunsCommand({ run: "7" })).toBe("noetl show 7");
  });

  it("lists runs and starts a run", () => {
    expect(listRunsCommand({ status: "FAILED,CANCELLED", since: "24h" })).toBe(
      "noetl runs --status failed,cancelled --since 24h",
    );
    expect(startRunCommand("demo/x", 2, '{"n":1}')).toBe(`noetl run demo/x@2 --input '{"n":1}'`);
    expect(startRunCommand("demo/x", 2, "{}")).toBe("noetl run demo/x@2");
    expect(listRunsCommand({ label: "team:x,env:a b", q: "load", code: "HTTP_STATUS" })).toBe(
      "noetl runs --label team=x --label 'env=a b' --search load --error-code HTTP_STATUS",
    );
  });

  it("registers a file named after the playbook", () => {
    expect(registerCommand("demo/load")).toBe("noetl register load.yaml");
    expect(registerCommand("")).toBe("noetl register playbook.yaml");
  });
});
