// The page of a playbook: two versions and what differs, a run by a form with typed inputs, and a rerun from a step whose
// preview is what the rerun does.
import assert from "node:assert/strict";
import { request, waitForStatus } from "./api.mjs";

const first = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: pages, path: demo/pages, description: Reads pages and saves them }
workload:
  # How many pages are read.
  limit: 2
  big: 1
  dry: false
  tags: [a, b]
  db: { host: localhost, port: 5432 }
  token:
workflow:
  - step: list
    tool: { kind: noop }
    next: [{ step: fetch }]
  - step: fetch
    tool: { kind: noop }
    set: { ctx.big: "{{ workload.big }}", ctx.host: "{{ workload.db.host }}" }
    next: [{ step: save }]
  - step: save
    tool: { kind: noop }
    next: [{ step: report, when: "{{ workload.limit > 10 }}" }]
  - step: report
    tool: { kind: noop }
`;
const second = `# This comment is no change.\n${first}`
  .replace("limit > 10", "limit > 5")
  .replace("limit: 2", "limit: 3");
const path = "playbooks/demo%2Fpages";
const runId = (page) => new URL(page.url()).pathname.split("/").pop();
const waitForState = (page, text) => page.waitForSelector(`.run-state >> text=${text}`);

export async function scenario({ openPage, url }) {
  for (const content of [first, second]) {
    await request(url, "api/catalog/register", { method: "POST", body: { content } });
  }
  const page = await openPage();
  await compareVersions(page, url);
  const id = await runByForm(page, url);
  await rerunFromStep(page, url, id);
  await lookAtPlaybook(page, url);
}

async function compareVersions(page, url) {
  await page.goto(`${url}${path}?tab=versions`);
  await page.waitForSelector(".diff-change");
  const paths = await page.locator(".diff-path").allInnerTexts();
  assert.deepEqual(paths, ["workload.limit", "save.next[report].when"]);
  await page.locator(".versions-bar select").first().selectOption("2");
  await page.waitForSelector("text=Both versions have the same text.");
  await page.locator(".versions-bar select").first().selectOption("1");
  await page.click(".diff-line >> text=v2:7");
  await page.waitForSelector(".cm-line >> text=limit: 3");
  assert.match(page.url(), /tab=source&version=2&line=7/);
}

/** Texts, groups, lists, booleans, a required input and an integer that JavaScript would round arrive as they are typed. */
async function runByForm(page, url) {
  await page.goto(`${url}${path}?dialog=run`);
  const field = (name) => page.getByRole("dialog").getByLabel(name);
  await page.waitForSelector("text=How many pages are read.");
  const run = page.locator("[role=dialog] .button-primary");
  assert.ok(await run.isDisabled(), "the form waits for the required input");
  await field("limit").fill("4");
  await field("big").fill("9007199254740993");
  await field("dry").check();
  await field("tags").fill("x\ny");
  await field("host").fill("db.example");
  await field("token").fill('"secret"');
  await run.click();
  await waitForState(page, "completed");
  const id = runId(page);
  const log = await fetch(`${url}api/executions/${id}/events?limit=1`).then((response) => response.text());
  for (const text of ['"big":9007199254740993', '"limit":4', '"dry":true', '"tags":["x","y"]', '"port":5432']) {
    assert.ok(log.replaceAll(": ", ":").includes(text), `${text} is in ${log}`);
  }
  assert.ok(log.includes("db.example"));
  return id;
}

async function rerunFromStep(page, url, id) {
  await page.goto(`${url}runs/${id}?dialog=rerun&step=save`);
  const preview = page.getByRole("region", { name: "What the rerun does" });
  await preview.getByText("Reuses 2 steps, runs 1 step first, then up to 1 more").waitFor();
  await page.getByRole("dialog").getByLabel("limit").fill("8");
  await preview.getByText("changed inputs").waitFor();
  await page
    .getByRole("dialog")
    .getByLabel(/Version of/)
    .selectOption("1");
  await preview.getByText("save.next[report].when").waitFor();
  await page.click("[role=dialog] .button-primary");
  await page.waitForURL((address) => !address.pathname.endsWith(id));
  const rerun = runId(page);
  await waitForStatus(url, rerun, "COMPLETED");
  const { events } = await request(url, `api/executions/${rerun}/events?limit=1000`);
  const steps = (type, hasTask) =>
    events.filter((event) => event.event_type === type && !!event.task_label === hasTask).map((event) => event.step);
  assert.deepEqual(steps("step.reused", false), ["list", "fetch"]);
  assert.deepEqual(steps("step.scheduled", false), ["save"]);
  assert.equal(events[0].payload.workload.limit, 8);
  await checkRefusal(page, url, id);
}

/** A rerun that would be refused cannot be started, and its error is shown. */
async function checkRefusal(page, url, id) {
  await page.goto(`${url}runs/${id}?dialog=rerun&step=report`);
  await page.waitForSelector("[role=dialog] .problem-code");
  assert.ok(await page.locator("[role=dialog] .button-primary").isDisabled());
}

async function lookAtPlaybook(page, url) {
  await page.goto(`${url}playbooks`);
  const strip = page.getByRole("img", { name: "last 2 runs: 2 completed" });
  await strip.waitFor();
  await page.click("text=demo/pages");
  await page.waitForSelector("text=Reads pages and saves them");
  await page.waitForSelector(".step-node >> text=fetch");
  await page.click(".step-node >> text=fetch");
  await page.waitForSelector(".tab-bar >> text=line");
  const caller = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: nightly, path: demo/nightly }
workflow:
  - step: call
    tool: { kind: playbook, path: demo/pages }
`;
  await request(url, "api/catalog/register", { method: "POST", body: { content: caller } });
  await page.click("[role=tab] >> text=Used by");
  await page.waitForSelector(".playbook-link >> text=demo/nightly");
}
