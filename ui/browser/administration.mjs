// Credentials, tokens, workers and roles: an admin sets a credential and manages a token, a viewer sees no admin
// actions, and the page of the workers says why a task waits.
import assert from "node:assert/strict";
import { request, start } from "./api.mjs";
import { usesCredential, wrongPool } from "./playbooks.mjs";

const canary = "canary-value-7c31";

async function signIn(page, url, token) {
  await page.goto(`${url}workers`);
  await page.fill(".sign-in-form input", token);
  await page.keyboard.press("Enter");
  await page.waitForSelector("h1 >> text=Workers");
}

/** Keeps the bodies of all responses of the API. */
function recordResponses(page) {
  const bodies = [];
  page.on("response", (response) => {
    if (new URL(response.url()).pathname.includes("/api/")) bodies.push(response.text().catch(() => ""));
  });
  return bodies;
}

async function setCredential(page, url) {
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  await page.waitForSelector("h1 >> text=Credentials");
  await page.click("text=Set a credential… >> nth=0");
  await page.fill("[role=dialog] label:has-text('Name') + input", "orders_api");
  await page.selectOption("[role=dialog] select", "bearer");
  await page.fill("[role=dialog] input[type=password]", canary);
  await page.click("[role=dialog] .button-primary");
  await page.waitForSelector("td >> text=orders_api");
  await page.waitForSelector("a >> text=demo/orders");
  await page.waitForSelector("[role=dialog]", { state: "detached" });
  const list = await page.evaluate(() => fetch(new URL("api/credentials", document.baseURI)).then((r) => r.text()));
  assert.ok(list.includes("orders_api") && !list.includes(canary), "the API returns the name and not the value");
  assert.ok(!(await page.content()).includes(canary), "the page does not hold the value");

  await page.click("[aria-label='Actions for orders_api']");
  await page.click("text=Delete…");
  await page.waitForSelector("[role=dialog] >> text=demo/orders");
  await page.click("text=Keep it");
  await page.goto(`${url}credentials?dialog=history&name=orders_api`);
  await page.waitForSelector("[role=dialog] td >> text=credential.set");
}

async function createToken(page, url) {
  await page.goto(`${url}system?tab=tokens`);
  await page.click("text=Create a token…");
  await page.fill("[role=dialog] input", "visitor");
  await page.click("[role=dialog] .button-primary");
  const text = await page.locator(".token-text").innerText();
  assert.match(text, /^noetl_pat_/);
  await page.click("text=I have saved it");
  await page.waitForSelector("td >> text=visitor");
  assert.ok(!(await page.content()).includes(text), "the token is shown once");
  return text;
}

async function useViewer(page, url, token) {
  await signIn(page, url, token);
  await page.waitForSelector("nav >> text=System");
  assert.equal(await page.locator("nav >> text=Credentials").count(), 0, "a viewer has no page of credentials");
  await page.goto(`${url}credentials`);
  await page.waitForSelector("text=Only admins manage credentials");
  await page.goto(`${url}system?tab=tokens`);
  await page.waitForSelector("h2 >> text=Limits");
  assert.equal(await page.locator("[role=tab]").count(), 1, "a viewer sees neither tokens nor the audit log");
  const statuses = await page.evaluate(() =>
    Promise.all(
      ["api/credentials", "api/tokens", "api/audit", "api/credential-types"].map((path) =>
        fetch(new URL(path, document.baseURI)).then((response) => response.status),
      ),
    ),
  );
  assert.deepEqual(statuses, [403, 403, 403, 403], "the server enforces the role");
  const allowed = await page.evaluate(() => fetch(new URL("api/workers", document.baseURI)).then((r) => r.status));
  assert.equal(allowed, 200, "the check of the statuses can succeed");
}

async function explainWaiting(page, url, id) {
  await page.goto(`${url}workers`);
  await page.waitForSelector("text=No worker serves the pool gpu");
  await page.click(`tr:has-text("${id}") a`);
  await page.waitForSelector(".drawer >> text=Waits for a worker");
  await page.waitForSelector(".drawer >> text=No worker serves the pool");
  await page.goto(`${url}workers`);
  await page.waitForSelector("text=serves x-telescope");
}

async function revokeToken(admin, viewer, url, token) {
  await admin.goto(`${url}system?tab=tokens`);
  await admin.click("[aria-label='Revoke visitor']");
  await admin.click("text=Revoke the token >> nth=-1");
  await admin.waitForSelector("tr:has-text('visitor') >> text=revoked");
  await assert.rejects(request(url, "api/workers", { token }), /401/);
  await viewer.goto(`${url}workers`);
  await viewer.waitForSelector(".sign-in-form");
  await admin.goto(`${url}system?tab=audit&action=token.`);
  await admin.waitForSelector("td >> text=token.revoke");
  assert.equal(await admin.locator("td >> text=credential.set").count(), 0, "the filter applies");
}

/** A worker that serves the pool `sky`, but no task of it, and lives until its heartbeats end. */
async function startWorker(url, token) {
  const body = { worker: "astronomer", pool: "sky", slots: 1, kinds: ["http"] };
  const beat = () => request(url, "api/worker/pool/heartbeat", { method: "POST", body, token });
  await beat();
  return setInterval(() => void beat().catch(() => {}), 3000);
}

export async function scenario({ openPage, url, tokens }) {
  const body = { content: usesCredential };
  await request(url, "api/catalog/register", { method: "POST", body, token: tokens.admin });
  const id = await start(url, wrongPool("shell", "gpu"), {}, tokens.admin);
  const heartbeats = await startWorker(url, tokens.admin);
  await start(url, wrongPool("x-telescope", "sky"), {}, tokens.admin);

  const admin = await openPage();
  const bodies = recordResponses(admin);
  await signIn(admin, url, tokens.admin);
  await explainWaiting(admin, url, id);
  await setCredential(admin, url);
  const token = await createToken(admin, url);
  const viewer = await openPage();
  await useViewer(viewer, url, token);
  await revokeToken(admin, viewer, url, token);
  clearInterval(heartbeats);
  const texts = await Promise.all(bodies);
  assert.ok(texts.some((text) => text.includes("orders_api")) && !texts.some((text) => text.includes(canary)));
}
