import { describe, expect, it } from "vitest";
import { listRunsCommand, quoteArgument, startRunCommand } from "./cli";

describe("CLI commands", () => {
  it("quotes what a shell would change", () => {
    expect(quoteArgument("demo/load@3")).toBe("demo/load@3");
    expect(quoteArgument("it's")).toBe("'it'\\''s'");
  });

  it("lists runs and starts a run", () => {
    expect(listRunsCommand({ status: "FAILED,CANCELLED", since: "24h" })).toBe(
      "noetl runs --status failed,cancelled --since 24h",
    );
    expect(startRunCommand("demo/x", 2, { n: 1 })).toBe(`noetl run demo/x@2 --input '{"n":1}'`);
    expect(startRunCommand("demo/x", 2, {})).toBe("noetl run demo/x@2");
  });
});
