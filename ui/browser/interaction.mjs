// What people do every day: filter and walk the list, follow new runs, use the palette, control a run, lose the connection.
import assert from "node:assert/strict";
import { readPlaybook, request, start, waitForStatus } from "./api.mjs";
import { division, greeting } from "./playbooks.mjs";

export async function scenario({ openPage, url }) {
  const failed = await start(url, division);
  await start(url, greeting);
  await waitForStatus(url, failed, "FAILED");
  const page = await openPage();
  await filterByTyping(page, url);
  await keepListStill(page, url);
  await usePaletteAndKeys(page, url);
  await showDiagnostic(page, url);
  await controlRun(page, url);
  await walkFailures(page, url, failed);
  await reportLostConnection(page, url);
}

/** Typed filters become chips and part of the address. */
async function filterByTyping(page, url) {
  await page.goto(`${url}runs`);
  await page.waitForSelector(".run-link");
  await page.keyboard.press("/");
  await page.keyboard.type("status:failed division");
  await page.keyboard.press("Enter");
  await page.waitForURL(/status=FAILED&q=division/);
  await page.waitForSelector(".filter-chip");
  await page.waitForFunction(() => document.querySelectorAll(".run-link").length === 1);
}

/** A new run does not move the rows until the reader asks for it. */
async function keepListStill(page, url) {
  await page.goto(`${url}runs`);
  await page.waitForSelector(".run-link");
  const newest = () => page.locator(".run-link >> nth=0").getAttribute("data-id");
  const before = await newest();
  await request(url, "api/execute", { method: "POST", body: { path: "demo/greeting" } });
  await page.waitForSelector(".fresh");
  assert.equal(await newest(), before);
  await page.click(".fresh");
  await page.waitForFunction((id) => document.querySelector(".run-link")?.getAttribute("data-id") !== id, before);
}

async function usePaletteAndKeys(page, url) {
  await page.goto(`${url}runs`);
  await page.waitForSelector(".run-link");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("playbooks");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".playbook-table");
  await page.keyboard.press("?");
  await page.waitForSelector("[role=dialog] >> text=Everywhere");
  await page.keyboard.press("Escape");
}

/** An error in a playbook is shown while it is written. */
async function showDiagnostic(page, url) {
  await page.goto(`${url}playbooks?dialog=register`);
  await page.click(".code >> .cm-content");
  await page.keyboard.type(
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x/y}\nworkflow:\n- step: a\ntol: 3\n",
  );
  await page.waitForSelector(".diagnostic-row >> text=E0107");
}

async function controlRun(page, url) {
  const id = await start(url, readPlaybook("slow-loop"), { count: 20_000 });
  await page.goto(`${url}runs/${id}`);
  await page.waitForSelector(".run-state >> text=running");
  await page.waitForSelector(".loop-bar");
  await page.keyboard.press("e");
  await page.waitForSelector(".event >> text=task.done");
  await page.keyboard.press("l");
  await page.waitForSelector(".log-row >> text=done");
  await page.click(".run-actions >> text=Pause");
  await page.click(".run-actions >> text=Resume");
  await cancel(page);
  await page.click(".run-actions >> text=Retry failed");
  await page.click("[role=dialog] .button-primary");
  await page.waitForSelector(".run-state >> text=running");
  await cancel(page);
  await waitForStatus(url, id, "CANCELLED");
}

async function cancel(page) {
  await page.click(".run-actions >> text=Cancel…");
  await page.click("[role=dialog] >> text=Cancel the run");
  await page.waitForSelector(".run-state >> text=cancelled");
}

/** The keyboard reaches a node of the graph, and the next failure. */
async function walkFailures(page, url, failed) {
  await page.goto(`${url}runs/${failed}`);
  await page.waitForSelector(".react-flow__node");
  await page.focus(".react-flow__node >> nth=0");
  await page.keyboard.press("Enter");
  await page.waitForURL(/step=start/);
  await page.keyboard.press("]");
  await page.waitForURL(/step=divide&task=compute/);
}

async function reportLostConnection(page, url) {
  await page.goto(url);
  await page.waitForSelector(".run-list-row");
  await page.context().setOffline(true);
  await page.waitForSelector(".banner");
  await page.context().setOffline(false);
  await page.waitForSelector(".banner", { state: "detached" });
}
