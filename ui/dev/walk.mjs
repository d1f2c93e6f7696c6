// Uses a served build (URL) as a person does, on a server that `npm run seed` has filled. Fails at the first step that does
// not work, and keeps a picture of it.
import { mkdirSync } from "node:fs";
import { base, pictures, startBrowser, watchPage } from "./browser.mjs";

mkdirSync(pictures, { recursive: true });
const browser = await startBrowser();
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
const page = await context.newPage();
page.setDefaultTimeout(10_000);
watchPage(page, (text) => console.log(`console: ${text}`));

const open = async (path, selector) => {
  await page.goto(new URL(path, base).href);
  await page.waitForSelector(selector);
};
const openFailed = async () => {
  await open("runs?status=FAILED&playbook=demo/score-orders", ".run-link");
  await page.click(".run-link >> nth=0");
};
const post = (path, body) =>
  fetch(new URL(path, base), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

const steps = {
  "two clicks from the list to the failing line": async () => {
    await openFailed();
    await page.click(".run-error .link >> nth=0");
    await page.waitForSelector(".excerpt-line[data-failing]");
    for (const text of ["Traceback (most recent call last)", "orders", "rating 3 EUR"]) {
      await page.waitForSelector(`.drawer >> text=${text}`);
    }
  },
  "rows with the keyboard": async () => {
    await open("runs", ".run-link");
    for (const key of ["j", "j", "k", "Enter"]) await page.keyboard.press(key);
    await page.waitForSelector(".run-header");
  },
  "typed filters become chips in the URL": async () => {
    await open("runs", ".run-link");
    await page.keyboard.press("/");
    await page.keyboard.type("status:failed score");
    await page.keyboard.press("Enter");
    await page.waitForURL(/status=FAILED&q=score/);
    await page.waitForSelector(".filter-chip");
  },
  "new runs wait until they are wanted": async () => {
    await open("runs", ".run-link");
    await page.waitForTimeout(1000);
    const newest = () => page.locator(".run-link >> nth=0").getAttribute("data-id");
    const before = await newest();
    await post("api/execute", { path: "examples/hello" });
    await page.waitForSelector(".fresh");
    if ((await newest()) !== before) throw new Error("the list jumped");
    await page.click(".fresh");
    await page.waitForFunction((id) => document.querySelector(".run-link")?.getAttribute("data-id") !== id, before);
  },
  "palette and keys": async () => {
    await page.keyboard.press("Control+k");
    await page.keyboard.type("playbooks");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".playbook-table");
    await page.keyboard.press("?");
    await page.waitForSelector("[role=dialog] >> text=Everywhere");
    await page.keyboard.press("Escape");
  },
  "a mistake in a playbook is shown at its place": async () => {
    await open("playbooks?dialog=register", ".code");
    await page.click(".code >> .cm-content");
    await page.keyboard.type(
      "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x/y}\nworkflow:\n- step: a\ntol: 3\n",
    );
    await page.waitForSelector(".diagnostic >> text=E0107");
  },
  "start a run from the form": async () => {
    await open("playbooks/demo%2Fslow-loop", ".page-head .button-primary");
    await page.keyboard.press("r");
    await page.fill("[role=dialog] input >> nth=0", "20000");
    await page.click("[role=dialog] .button-primary");
    await page.waitForSelector(".run-state >> text=running");
    await page.waitForSelector(".loop-bar");
  },
  "follow its events and logs": async () => {
    await page.keyboard.press("e");
    await page.waitForSelector(".event >> text=task.done");
    await page.keyboard.press("l");
    await page.waitForSelector(".log-row >> text=done");
  },
  "pause, resume, cancel and retry it": async () => {
    await page.click(".run-actions >> text=Pause");
    await page.click(".run-actions >> text=Resume");
    await page.click(".run-actions >> text=Cancel…");
    await page.click("[role=dialog] >> text=Cancel the run");
    await page.waitForSelector(".run-state >> text=cancelled");
    await page.click(".run-actions >> text=Retry failed");
    await page.click("[role=dialog] .button-primary");
    await page.waitForSelector(".run-state >> text=running");
    await page.click(".run-actions >> text=Cancel…");
    await page.click("[role=dialog] >> text=Cancel the run");
    await page.waitForSelector(".run-state >> text=cancelled");
  },
  "rerun from a step": async () => {
    await openFailed();
    const before = page.url();
    await page.click(".run-actions >> text=Rerun…");
    await page.selectOption("[role=dialog] select >> nth=0", "score");
    await page.click("[role=dialog] .button-primary");
    await page.waitForFunction((url) => location.href !== url && !location.search.includes("dialog"), before);
  },
  "nodes with the keyboard, and the next failure": async () => {
    await openFailed();
    await page.waitForSelector(".react-flow__node");
    await page.focus(".react-flow__node >> nth=0");
    await page.keyboard.press("Enter");
    await page.waitForURL(/step=start/);
    await page.keyboard.press("]");
    await page.waitForURL(/step=score&task=rate/);
  },
  "a lost connection is reported until it is back": async () => {
    await open("", ".run-list-row");
    await context.setOffline(true);
    await page.waitForSelector(".banner");
    await context.setOffline(false);
    await page.waitForSelector(".banner", { state: "detached", timeout: 30_000 });
  },
};

for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    console.log(`ok    ${name}`);
  } catch (error) {
    const picture = `${pictures}/walk.png`;
    await page.screenshot({ path: picture });
    console.log(`FAIL  ${name}: ${String(error.message).split("\n")[0]} (${picture})`);
    process.exitCode = 1;
    break;
  }
}
await browser.close();
