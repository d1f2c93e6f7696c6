// Labels and actions on many runs: a person filters by a label, selects all that match, and cancels exactly these.
import assert from "node:assert/strict";
import { request, waitForStatus } from "./api.mjs";
import { waiting } from "./playbooks.mjs";

async function startLabelled(url, labels) {
  const body = { playbook: waiting, labels };
  return (await request(url, "api/execute", { method: "POST", body })).execution_id;
}

export async function scenario({ openPage, url }) {
  const night = [];
  for (let count = 0; count < 4; count += 1) night.push(await startLabelled(url, { batch: "night", team: "data" }));
  const day = await startLabelled(url, { batch: "day", team: "data" });
  const page = await openPage();
  await selectRows(page, url);
  await cancelMatching(page, url, night);
  assert.equal((await request(url, `api/executions/${day}/status`)).status, "RUNNING", "another label stays");
  await saveView(page, url);
}

/** Keys, checkboxes and ranges select rows; the action names the number of selected runs. */
async function selectRows(page, url) {
  await page.goto(`${url}runs`);
  await page.waitForSelector(".run-link");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.waitForSelector("text=1 selected");
  await page.click(".run-check input >> nth=3", { modifiers: ["Shift"] });
  await page.waitForSelector("text=3 selected");
  await page.click(".bulk-bar >> text=Retry failed");
  await page.waitForSelector("[role=dialog] >> text=3 runs left out");
  assert.equal(await page.isDisabled("[role=dialog] .dialog-foot .button-primary"), true, "nothing to retry");
  await page.click("text=Do nothing");
  await page.click("text=Clear selection");
}

async function cancelMatching(page, url, night) {
  await page.keyboard.press("/");
  await page.keyboard.type("label.batch=night");
  await page.keyboard.press("Enter");
  await page.waitForURL(/label=batch/);
  await page.waitForSelector("text=4 runs");
  await page.click(".run-check input >> nth=1");
  await page.click("text=Select all 4 matching");
  await page.click(".bulk-bar >> text=Cancel…");
  await page.waitForSelector("[role=dialog] >> text=applies to 4 of 4 runs");
  const late = await startLabelled(url, { batch: "night" });
  await page.click("[role=dialog] >> text=Cancel 4 runs");
  await page.waitForSelector("[role=dialog] >> text=4 of 4 runs done");
  await page.click("[role=dialog] .dialog-foot .button-primary");
  for (const id of night) await waitForStatus(url, id, "CANCELLED");
  assert.equal((await request(url, `api/executions/${late}/status`)).status, "RUNNING", "started after the preview");
}

async function saveView(page, url) {
  await page.goto(`${url}runs?label=batch:night&status=CANCELLED`);
  await page.waitForSelector(".run-link");
  await page.click(".filter-bar >> text=Views");
  await page.click("text=Save as a view");
  await page.fill("[role=dialog] input", "Cancelled at night");
  await page.keyboard.press("Enter");
  await page.goto(`${url}runs`);
  await page.waitForSelector(".run-link");
  await page.click(".filter-bar >> text=Views");
  await page.click("[role=menuitem] >> text=Cancelled at night");
  await page.waitForURL(/status=CANCELLED/);
}
