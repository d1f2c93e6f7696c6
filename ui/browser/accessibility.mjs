// Every view in both themes: axe-core finds nothing serious, and the keyboard reaches the failure of a run.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { start, waitForStatus } from "./api.mjs";
import { division, greeting, loop, waiting } from "./playbooks.mjs";

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

async function checkView(page, name) {
  await page.waitForSelector("main");
  await page.waitForTimeout(300);
  assert.deepEqual(await findViolations(page), [], name);
}

export async function scenario({ openPage, url }) {
  const failed = await start(url, division);
  const looped = await start(url, loop);
  await start(url, greeting);
  await start(url, waiting);
  await waitForStatus(url, failed, "FAILED");
  await waitForStatus(url, looped, "COMPLETED");
  const views = {
    home: "",
    runs: "runs",
    "no runs": "runs?q=nothing-matches-this",
    graph: `runs/${looped}`,
    failure: `runs/${failed}?step=divide&task=compute`,
    logs: `runs/${failed}?tab=logs`,
    events: `runs/${failed}?tab=events`,
    results: `runs/${looped}?tab=results`,
    source: `runs/${failed}?tab=source`,
    rerun: `runs/${failed}?dialog=rerun`,
    playbooks: "playbooks",
    playbook: "playbooks/demo%2Fgreeting",
    "run form": "playbooks/demo%2Fgreeting?dialog=run",
    register: "playbooks?dialog=register",
    "not found": "nowhere",
  };
  for (const colorScheme of ["light", "dark"]) {
    const page = await openPage({ colorScheme });
    for (const [name, path] of Object.entries(views)) {
      await page.goto(url + path);
      await checkView(page, `${name}, ${colorScheme}`);
    }
  }
  await checkNegativeControl(openPage, url);
  await useKeyboardOnly(openPage, url, failed);
}

/** The check finds a fault that is put into a page on purpose. */
async function checkNegativeControl(openPage, url) {
  const page = await openPage();
  await page.goto(`${url}runs`);
  await page.waitForSelector(".run-link");
  await page.evaluate(() => document.querySelector("main").append(document.createElement("button")));
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
