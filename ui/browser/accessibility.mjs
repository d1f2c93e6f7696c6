// Every view in both themes: axe-core finds nothing serious, and the keyboard reaches the failure of a run.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { request, start, waitForStatus } from "./api.mjs";
import { approval, division, failingLoop, greeting, loop, waiting, wrongPool } from "./playbooks.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Runs axe-core in a world of its own, because the policy of the page allows no foreign scripts. */
export async function findViolations(page) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const world = { frameId: frameTree.frame.id };
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", world);
  await session.send("Runtime.evaluate", { expression: axe, contextId });
  const expression =
    "axe.run().then(({ violations }) => JSON.stringify(violations.map(({ id, impact, nodes }) => " +
    "({ id, impact, targets: nodes.slice(0, 3).map((node) => node.target.join(' ')) }))))";
  const { result } = await session.send("Runtime.evaluate", { expression, contextId, awaitPromise: true });
  await session.detach();
  return JSON.parse(result.value).filter(({ impact }) => ["serious", "critical"].includes(impact));
}

const sizes = [
  { width: 390, height: 844 },
  { width: 1024, height: 768 },
  { width: 1440, height: 900 },
];

async function checkView(page, name) {
  await page.waitForSelector("main");
  await page.waitForTimeout(300);
  assert.deepEqual(await findViolations(page), [], name);
  assert.deepEqual(await findOverflows(page), [], name);
}

/** The sizes at which a page is wider than the window. */
async function findOverflows(page) {
  const found = [];
  for (const size of sizes) {
    await page.setViewportSize(size);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    if (overflow > 0) found.push(`${overflow} px too wide at ${size.width}`);
  }
  return found;
}

export async function scenario({ openPage, url }) {
  const failed = await start(url, division);
  const looped = await start(url, loop);
  const failing = await start(url, failingLoop);
  await start(url, greeting);
  await start(url, greeting.replace("times: 3", "times: 4"));
  const waits = await start(url, waiting);
  await start(url, approval);
  await start(url, wrongPool("shell", "gpu"));
  const credential = { name: "demo", type: "bearer", data: { token: "secret" } };
  await request(url, "api/credentials", { method: "POST", body: credential });
  await waitForStatus(url, failed, "FAILED");
  await waitForStatus(url, looped, "COMPLETED");
  await waitForStatus(url, failing, "COMPLETED");
  const views = {
    home: "",
    runs: "runs",
    inbox: "inbox",
    "inbox, signal": `inbox?run=${waits}`,
    "no waits": "inbox?signal=nobody-waits-for-this",
    "waiting run": `runs/${waits}?step=approval&task=approval`,
    "no runs": "runs?q=nothing-matches-this",
    "labelled runs": "runs?label=team:x",
    graph: `runs/${looped}`,
    failure: `runs/${failed}?step=divide&task=compute`,
    timeline: `runs/${failing}?tab=timeline&open=each:1&path=critical`,
    loops: `runs/${failing}?tab=loops&step=each&iteration=101`,
    "loop durations": `runs/${failing}?tab=loops&by=duration&marked=5-20`,
    "no loop": `runs/${failed}?tab=loops`,
    logs: `runs/${failed}?tab=logs`,
    events: `runs/${failed}?tab=events`,
    results: `runs/${looped}?tab=results`,
    state: `runs/${looped}?tab=state`,
    "compared states": `runs/${failed}?tab=state&at=9&compare=3`,
    "earlier graph": `runs/${looped}?at=40`,
    source: `runs/${failed}?tab=source`,
    rerun: `runs/${failed}?dialog=rerun`,
    playbooks: "playbooks",
    playbook: "playbooks/demo%2Fgreeting",
    "playbook versions": "playbooks/demo%2Fgreeting?tab=versions",
    "playbook source": "playbooks/demo%2Fgreeting?tab=source&line=3",
    "playbook runs": "playbooks/demo%2Fgreeting?tab=runs",
    "playbook callers": "playbooks/demo%2Fgreeting?tab=callers",
    "run form": "playbooks/demo%2Fgreeting?dialog=run",
    register: "playbooks?dialog=register",
    credentials: "credentials",
    "credential form": "credentials?dialog=set",
    "credential history": "credentials?dialog=history&name=demo",
    workers: "workers",
    system: "system",
    tokens: "system?tab=tokens",
    "token form": "system?tab=tokens&dialog=create",
    audit: "system?tab=audit",
    "new playbook": "playbooks/new",
    editor: "playbooks/demo%2Fgreeting/edit?line=7",
    "not found": "nowhere",
  };
  for (const colorScheme of ["light", "dark"]) {
    const page = await openPage({ colorScheme });
    for (const [name, path] of Object.entries(views)) {
      await page.goto(url + path);
      await checkView(page, `${name}, ${colorScheme}`);
    }
  }
  await checkSelection(openPage, url);
  await checkNegativeControl(openPage, url);
  await useKeyboardOnly(openPage, url, failed);
}

/** The bar of selected runs, and the dialog that previews an action. */
async function checkSelection(openPage, url) {
  const page = await openPage();
  await page.goto(`${url}runs`);
  await page.waitForSelector(".run-link");
  await page.click(".run-check input >> nth=1");
  await page.waitForSelector(".bulk-bar");
  await checkView(page, "selected runs");
  await page.click(".bulk-bar >> text=Rerun…");
  await page.waitForSelector("[role=dialog] >> text=applies to");
  await checkView(page, "preview of an action");
}

/** The checks find faults that are put into a page on purpose. */
async function checkNegativeControl(openPage, url) {
  const page = await openPage();
  await page.goto(`${url}runs`);
  await page.waitForSelector(".run-link");
  await page.evaluate(() => {
    const button = document.createElement("button");
    button.style.width = "5000px";
    document.body.append(button);
  });
  assert.equal((await findOverflows(page)).length, sizes.length, "a page that is too wide is reported");
  const found = await findViolations(page);
  assert.ok(
    found.some(({ id }) => id === "button-name"),
    "axe-core reports a button without a name",
  );
}

async function useKeyboardOnly(openPage, url, failed) {
  const page = await openPage();
  await page.goto(`${url}playbooks`);
  await page.waitForSelector("main");
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.waitForSelector(".run-link");
  await page.keyboard.press("/");
  await page.keyboard.type("status:failed");
  await page.keyboard.press("Enter");
  await page.waitForURL(/status=FAILED/);
  await page.waitForSelector(".run-link");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".run-state >> text=failed");
  assert.equal(new URL(page.url()).pathname.split("/").pop(), failed);
  await page.keyboard.press("e");
  await page.waitForURL(/tab=events/);
}
