// The first visit of a person: an empty store, a playbook, its run, a failure, its cause, and the ways to repair it.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { request, start, waitForStatus } from "./api.mjs";
import { division, greeting, recovery, waiting } from "./playbooks.mjs";

const runId = (page) => new URL(page.url()).pathname.split("/").pop();
const waitForState = (page, text) => page.waitForSelector(`.run-state >> text=${text}`);

export async function scenario({ openPage, url }) {
  const page = await openPage();
  await visitEmptyStore(page, url);
  await registerAndRun(page, url);
  await findFailure(page, url);
  await rerunWithOtherInput(page, url);
  await retryUntilDone(page, url);
  await cancelRun(page, url);
}

async function visitEmptyStore(page, url) {
  await page.goto(`${url}runs`);
  await page.waitForSelector("text=noetl run");
  assert.equal(await page.title(), "Runs · NoETL");
}

async function registerAndRun(page, url) {
  await page.goto(`${url}playbooks?dialog=register`);
  const file = { name: "greeting.yaml", mimeType: "text/yaml", buffer: Buffer.from(greeting) };
  await page.setInputFiles("[role=dialog] input[type=file]", file);
  await page.click("[role=dialog] .button-primary");
  await page.waitForSelector("text=demo/greeting");
  await page.goto(`${url}playbooks/demo%2Fgreeting?dialog=run`);
  await page.fill("[role=dialog] input >> nth=0", "Grace");
  await page.click("[role=dialog] .button-primary");
  await waitForState(page, "completed");
  const id = runId(page);
  const run = await request(url, `api/executions/${id}`);
  assert.deepEqual(run.result, { greeted: "Grace" });
  await page.click("[role=tab] >> text=Logs");
  await page.waitForSelector("text=hello Grace 2");
}

/** Two clicks lead from the list to the failing line, its traceback, its input and its output. */
async function findFailure(page, url) {
  const id = await start(url, division);
  await waitForStatus(url, id, "FAILED");
  await page.goto(`${url}runs?status=FAILED`);
  await page.click(".run-link >> nth=0");
  await page.click(".run-error .link >> nth=0");
  await page.waitForSelector(".excerpt-line[data-failing] >> text=10 / divisor");
  await page.waitForSelector("text=Traceback (most recent call last)");
  await page.waitForSelector("text=divisor: 0");
  await page.waitForSelector("text=dividing by 0");
  assert.equal(runId(page), id);
}

async function rerunWithOtherInput(page, url) {
  await page.click("text=Rerun…");
  await page.fill(
    "[role=dialog] input[type=number], [role=dialog] input[inputmode=numeric], [role=dialog] input >> nth=-1",
    "5",
  );
  await page.click("[role=dialog] .button-primary");
  await waitForState(page, "completed");
  const run = await request(url, `api/executions/${runId(page)}`);
  assert.equal(run.execution.path, "demo/division");
}

/** A service that fails once: the run fails, and a retry of its failed step ends it. */
async function retryUntilDone(page, url) {
  let calls = 0;
  const service = createServer((_, response) => {
    calls += 1;
    response.writeHead(calls === 1 ? 503 : 200, { "content-type": "application/json" });
    response.end("{}");
  });
  await new Promise((resolve) => service.listen(0, "127.0.0.1", resolve));
  const id = await start(url, recovery(`http://127.0.0.1:${service.address().port}/`));
  await waitForStatus(url, id, "FAILED");
  await page.goto(`${url}runs/${id}`);
  await page.click("text=Retry failed");
  await page.click("[role=dialog] .button-primary");
  await waitForState(page, "completed");
  assert.equal(calls, 2);
  service.close();
}

async function cancelRun(page, url) {
  const id = await start(url, waiting);
  await page.goto(`${url}runs/${id}`);
  await page.click("text=Cancel…");
  await page.click("text=Cancel the run");
  await waitForState(page, "cancelled");
  await waitForStatus(url, id, "CANCELLED");
}
