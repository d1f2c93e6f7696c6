// Sign-in: a wrong token, a session, a viewer who is offered no action, and the end of the session.
import assert from "node:assert/strict";
import { start, waitForStatus } from "./api.mjs";
import { division, waiting } from "./playbooks.mjs";

async function signIn(page, url, token) {
  await page.goto(`${url}runs`);
  await page.fill(".sign-in-form input", token);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".run-link");
}

export async function scenario({ openPage, url, tokens }) {
  await start(url, waiting, {}, tokens.admin);
  const id = await start(url, division, {}, tokens.admin);
  await waitForStatus(url, id, "FAILED", tokens.admin);

  const page = await openPage();
  await page.goto(`${url}runs`);
  await page.fill(".sign-in-form input", "noetl_pat_wrong");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".problem >> text=UNAUTHENTICATED");
  await signIn(page, url, tokens.viewer);
  await page.click(".run-link >> nth=0");
  await page.waitForSelector(".run-state >> text=failed");
  assert.equal(await page.locator("text=Retry failed").count(), 0, "a viewer is offered no retry");
  assert.equal(await page.locator("text=Rerun…").count(), 0, "a viewer is offered no rerun");
  const refused = await page.evaluate(async (id) => {
    const headers = { "content-type": "application/json", "x-noetl-client": "web" };
    const response = await fetch(new URL(`api/executions/${id}/retry`, document.baseURI), {
      method: "POST",
      headers,
      body: "{}",
    });
    return response.status;
  }, id);
  assert.equal(refused, 403, "the server enforces the role");
  await page.goto(`${url}inbox`);
  await page.waitForSelector(".inbox-detail >> text=you need the role operator");
  assert.equal(await page.locator(".inbox-buttons").count(), 0, "a viewer is offered no answer");
  const cookies = await page.context().cookies();
  assert.ok(cookies.every((cookie) => cookie.httpOnly && cookie.sameSite === "Strict"));
  assert.equal(await page.evaluate(() => document.cookie), "", "scripts cannot read the session");

  await page.click("[aria-label^='Sign out']");
  await page.waitForSelector(".sign-in-form");
  await page.goto(`${url}runs/${id}`);
  await page.waitForSelector(".sign-in-form");

  const operator = await openPage();
  await signIn(operator, url, tokens.operator);
  await operator.click(".run-link >> nth=0");
  await operator.waitForSelector("text=Retry failed");
}
