// Single sign-on with a real identity provider on another site: roles, refusals, an outage, new keys, and the end of a
// session. `tokens` has the issuer, at which the scenario starts the provider, and the secret of the client.
import assert from "node:assert/strict";
import { findViolations } from "./accessibility.mjs";
import { signInAtProvider, startIdentityProvider } from "./identity_provider.mjs";

const providerLink = ".sign-in-provider";
const person = ".sidebar-person";

async function waitForFailure(page, code) {
  await page.waitForSelector(`.problem-code >> text=${code}`);
}

/** Signs in with the link of the sign-in page. */
async function signIn(page, url, login, path = "runs") {
  await page.goto(url + path);
  await page.click(providerLink);
  await signInAtProvider(page, login);
}

function requestStatus(page, path, method) {
  return page.evaluate(
    async ([path, method]) => {
      const headers = { "content-type": "application/json", "x-noetl-client": "web" };
      const body = method === "GET" ? undefined : "{}";
      return (await fetch(new URL(path, document.baseURI), { method, headers, body })).status;
    },
    [path, method],
  );
}

async function findProviderDown(openPage, url) {
  const page = await openPage();
  await page.goto(`${url}runs`);
  await page.click(providerLink);
  await waitForFailure(page, "OIDC_UNREACHABLE");
  assert.equal(new URL(page.url()).pathname, "/sign-in");
  return page;
}

/** The server pauses after a failed request, so the first attempts may fail. */
async function retryUntilProviderAnswers(page) {
  while (!(await page.locator("input[name=login]").count())) {
    if (await page.locator(providerLink).count()) await page.click(providerLink);
    await page.waitForTimeout(200);
  }
}

async function useAsAdmin(page, url) {
  await retryUntilProviderAnswers(page);
  await signInAtProvider(page, "ada");
  await page.waitForSelector(`${person} >> text=ada`);
  assert.equal(new URL(page.url()).pathname, "/runs", "the person returns to the page of the start");
  assert.equal(await page.innerText(`${person} .muted`), "admin");
  assert.equal(await requestStatus(page, "api/tokens", "GET"), 200);
  const cookies = (await page.context().cookies(url)).filter(({ name }) => name.startsWith("noetl"));
  assert.deepEqual(
    cookies.map(({ name, httpOnly, sameSite }) => [name, httpOnly, sameSite]),
    [["noetl_session", true, "Strict"]],
    "the cookie of the sign-in is gone",
  );
  assert.equal(await page.evaluate(() => document.cookie), "", "scripts cannot read the session");
  await page.reload();
  await page.waitForSelector(person);
  await page.goto(`${url}sign-in?return_to=/playbooks`);
  await page.waitForURL(`${url}playbooks`);
  await page.click("[aria-label^='Sign out']");
  await page.waitForSelector(providerLink);
  assert.equal(await requestStatus(page, "api/executions", "GET"), 401);
}

async function useAsViewer(openPage, url) {
  const page = await openPage();
  await signIn(page, url, "vera", "runs?q=two%20words&status=FAILED");
  await page.waitForSelector(`${person} >> text=vera`);
  const { searchParams } = new URL(page.url());
  assert.deepEqual([searchParams.get("q"), searchParams.get("status")], ["two words", "FAILED"]);
  assert.equal(await requestStatus(page, "api/executions", "GET"), 200);
  assert.equal(await requestStatus(page, "api/execute", "POST"), 403, "the server enforces the role");
  assert.equal(await requestStatus(page, "api/tokens", "GET"), 403);
  await page.goto(`${url}playbooks`);
  await page.waitForSelector(person);
  assert.equal(await page.locator("button >> text=Register").count(), 0, "a viewer is offered no action");
  return page;
}

async function findRefusals(openPage, url) {
  const stranger = await openPage();
  await signIn(stranger, url, "norman");
  await waitForFailure(stranger, "OIDC_NO_ROLE");
  assert.equal(await requestStatus(stranger, "api/executions", "GET"), 401);
  const cancelling = await openPage();
  await cancelling.goto(`${url}runs`);
  await cancelling.click(providerLink);
  await cancelling.click("text=Cancel");
  await waitForFailure(cancelling, "OIDC_DENIED");
}

/** Another site cannot complete a sign-in that this browser did not start. */
async function findForeignCallback(openPage, url) {
  const page = await openPage();
  await page.goto(`${url}api/session/oidc/callback?code=stolen&state=other`);
  await waitForFailure(page, "OIDC_STATE_INVALID");
  assert.equal(await requestStatus(page, "api/executions", "GET"), 401);
}

/** The cookie expires, as it does at the end of a session. */
async function endSession(page) {
  await page.context().clearCookies();
  await page.click("nav >> text=Playbooks");
  await page.waitForSelector(providerLink);
}

async function checkSignInPage(openPage, url) {
  for (const colorScheme of ["light", "dark"]) {
    const page = await openPage({ colorScheme });
    await page.goto(`${url}sign-in?failure=OIDC_NO_ROLE`);
    await waitForFailure(page, "OIDC_NO_ROLE");
    assert.deepEqual(await findViolations(page), [], colorScheme);
  }
}

export async function scenario({ openPage, url, tokens }) {
  const settings = {
    issuer: tokens.issuer,
    clientSecret: tokens.clientSecret,
    redirectUri: `${url}api/session/oidc/callback`,
  };
  const first = await findProviderDown(openPage, url);
  let stopProvider = await startIdentityProvider(settings);
  await useAsAdmin(first, url);
  const viewer = await useAsViewer(openPage, url);
  await findRefusals(openPage, url);
  await findForeignCallback(openPage, url);

  await stopProvider();
  await viewer.reload();
  await viewer.waitForSelector(person);
  assert.equal(await requestStatus(viewer, "api/executions", "GET"), 200, "sessions survive an outage");
  stopProvider = await startIdentityProvider(settings);
  const afterRotation = await openPage();
  await signIn(afterRotation, url, "vera");
  await afterRotation.waitForSelector(person);
  await endSession(afterRotation);
  await checkSignInPage(openPage, url);
  await stopProvider();
}
