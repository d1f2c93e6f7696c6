// Opens each view of a served build (URL) in Chromium: takes pictures in three widths and two themes, runs axe-core, and
// reports violations of the policy and errors of the console. `npm run seed` makes the runs. Arguments select views.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { base, pictures, startBrowser, watchPage } from "./browser.mjs";

const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const wanted = process.argv.slice(2);
const sizes = [
  [1440, 900],
  [1024, 768],
  [390, 844],
];

mkdirSync(pictures, { recursive: true });
const browser = await startBrowser();

const runs = await fetch(new URL("api/executions?limit=500", base)).then((response) => response.json());
const findRun = (path, status) =>
  runs.executions.find((run) => run.path === path && (!status || run.status === status))?.execution_id;
const loop = findRun("demo/load-patients");
const failed = findRun("demo/score-orders", "FAILED");
const branches = findRun("examples/fan-out");

const views = {
  home: "",
  runs: "runs",
  "runs-filtered": "runs?status=FAILED&since=24h",
  "runs-none": "runs?q=nothing-matches-this",
  graph: `runs/${branches}`,
  "graph-loop": `runs/${loop}?step=fetch_patients`,
  failure: `runs/${failed}?step=score&task=rate`,
  iteration: `runs/${loop}?step=fetch_patients&iteration=7&task=fetch_page`,
  logs: `runs/${loop}?tab=logs`,
  events: `runs/${failed}?tab=events&seq=17`,
  results: `runs/${loop}?tab=results`,
  source: `runs/${failed}?tab=source`,
  rerun: `runs/${loop}?dialog=rerun`,
  playbooks: "playbooks",
  playbook: "playbooks/demo%2Fscore-orders",
  start: "playbooks/demo%2Fscore-orders?dialog=run",
  register: "playbooks?dialog=register",
  credentials: "credentials",
  "credential-form": "credentials?dialog=set",
  workers: "workers",
  system: "system",
  tokens: "system?tab=tokens",
  audit: "system?tab=audit",
  "not-found": "nowhere",
  "no-run": "runs/1",
};

let problems = 0;
const report = (view, text) => {
  problems += 1;
  console.log(`${view}: ${text}`);
};

for (const [name, path] of Object.entries(views)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  for (const theme of ["light", "dark"]) {
    const context = await browser.newContext({ colorScheme: theme, reducedMotion: "reduce", bypassCSP: false });
    const page = await context.newPage();
    watchPage(page, (text) => {
      const isExpected = name === "no-run" && /status of 40[04]/.test(text);
      if (!isExpected) report(name, text);
    });
    for (const [width, height] of sizes) {
      await page.setViewportSize({ width, height });
      await page.goto(new URL(path, base).href);
      await page.waitForSelector("main");
      await page.waitForTimeout(700);
      await page.screenshot({ path: `${pictures}/${name}-${width}-${theme}.png` });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (overflow > 0) report(name, `is ${overflow} px too wide at ${width}`);
      if (width === 1024) continue;
      for (const violation of await findViolations(page)) report(name, `${theme} ${width} ${violation}`);
    }
    await context.close();
  }
}
await browser.close();
console.log(problems === 0 ? "no problems" : `${problems} problems`);
process.exitCode = problems === 0 ? 0 : 1;

/** What axe-core finds. It runs in an isolated world, so the policy of the page stays in force. */
async function findViolations(page) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", {
    frameId: frameTree.frame.id,
  });
  await session.send("Runtime.evaluate", { expression: readFileSync(axePath, "utf8"), contextId });
  const { result } = await session.send("Runtime.evaluate", {
    expression: "axe.run().then(({ violations }) => JSON.stringify(violations))",
    contextId,
    awaitPromise: true,
  });
  await session.detach();
  return JSON.parse(result.value).map((violation) => {
    const nodes = violation.nodes.slice(0, 3).map((node) => `${node.target.join(" ")} ${node.any[0]?.message ?? ""}`);
    return `axe ${violation.id}: ${nodes.join(" | ")} (${violation.nodes.length})`;
  });
}
