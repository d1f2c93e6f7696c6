// What waits for a person: it appears in the inbox, is answered with the form, and disappears. A viewer only reads it.
import assert from "node:assert/strict";
import { request, start, waitForStatus } from "./api.mjs";
import { approval, waiting } from "./playbooks.mjs";

async function waitForCount(url, count) {
  for (;;) {
    const answer = await request(url, "api/inbox/count");
    if (answer.count === count) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export async function scenario({ openPage, url }) {
  const page = await openPage();
  await seeNothingWaits(page, url);
  await approve(page, url);
  await sendSignal(page, url);
  await ignoreCancelledRun(page, url);
}

async function seeNothingWaits(page, url) {
  await page.goto(url);
  await page.waitForSelector("main");
  await page.keyboard.press("g");
  await page.keyboard.press("i");
  await page.waitForSelector("text=Nothing waits for a decision");
  assert.equal(await page.locator(".sidebar-badge").count(), 0);
}

/** The run shows what it waits for, and completes with the decision and the values of the form. */
async function approve(page, url) {
  const id = await start(url, approval, { change: "the limit to 200" });
  await waitForCount(url, 1);
  await page.goto(`${url}runs/${id}`);
  await page.waitForSelector(".run-wait >> text=waits for the approval");
  await page.waitForSelector(".sidebar-badge >> text=1");
  await page.click(".run-wait >> text=Answer in the inbox");
  await page.waitForSelector(".inbox-detail h2 >> text=Raise the limit to 200?");
  await page.waitForSelector(".inbox-detail >> text=left");
  await page.fill(".inbox-answer input[inputmode=decimal]", "180");
  await page.fill(".inbox-answer input[inputmode=text]", "not more");
  await page.click(".inbox-answer >> text=Approve >> nth=0");
  const run = await waitForStatus(url, id, "COMPLETED");
  assert.equal(run.waits_for, undefined);
  const { result } = await request(url, `api/executions/${id}`);
  assert.deepEqual(result, { verdict: "applied", amount: 180, comment: "not more", urgent: false });
  await page.waitForSelector("text=This task no longer waits");
  await page.goto(`${url}inbox`);
  await page.waitForSelector("text=Nothing waits for a decision");
  assert.equal(await page.locator(".sidebar-badge").count(), 0);
}

/** A signal has no form: its payload is JSON. A payload that is not an object cannot be sent. */
async function sendSignal(page, url) {
  const id = await start(url, waiting);
  await waitForCount(url, 1);
  await page.goto(`${url}inbox?signal=approved`);
  await page.waitForSelector(".inbox-detail h2 >> text=Signal approved");
  await page.fill("textarea[aria-label='Payload as JSON']", "[1");
  assert.ok(await page.locator(".inbox-buttons button").isDisabled());
  await page.fill("textarea[aria-label='Payload as JSON']", '{"by": "Ada"}');
  await page.click(".inbox-buttons button");
  await waitForStatus(url, id, "COMPLETED");
  const { result } = await request(url, `api/executions/${id}`);
  assert.deepEqual(result, { by: "Ada" });
  await page.waitForSelector("text=Nothing that matches waits");
}

/** A wait whose run is cancelled is not listed, and a list that is open loses it. */
async function ignoreCancelledRun(page, url) {
  const id = await start(url, approval, { change: "the limit to 300" });
  await waitForCount(url, 1);
  await page.goto(`${url}inbox`);
  await page.waitForSelector(".inbox-row >> text=Raise the limit to 300?");
  await request(url, `api/executions/${id}/cancel`, { method: "POST", body: {} });
  await waitForStatus(url, id, "CANCELLED");
  await page.waitForSelector("text=Nothing waits for a decision");
  const { waits } = await request(url, "api/inbox");
  assert.deepEqual(waits, []);
}
