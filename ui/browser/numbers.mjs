// The numbers of the client, of the API and of the event log agree: status, events, step runs, iterations, counts of runs.
import assert from "node:assert/strict";
import { request, start, waitForStatus } from "./api.mjs";
import { division, failingLoop, greeting, loop, waiting } from "./playbooks.mjs";

const statusWords = { COMPLETED: "completed", FAILED: "failed", CANCELLED: "cancelled", RUNNING: "running" };

/** Reads the whole event log of a run. */
async function readLog(url, id) {
  const events = [];
  for (let after = 0; after !== undefined;) {
    const page = await request(url, `api/executions/${id}/events?limit=1000&after_seq=${after}`);
    events.push(...page.events);
    after = page.next_after_seq;
  }
  return events;
}

/** Counts what the events of a run record, without the API's own projections. */
function countEvents(events) {
  const finished = events.findLast((event) => event.event_type === "playbook.finished");
  const steps = new Map();
  for (const { event_type: type, step } of events) {
    if (!step) continue;
    const counts = steps.get(step) ?? { runs: 0, succeeded: 0, failed: 0 };
    steps.set(step, counts);
    if (type === "step.scheduled") counts.runs += 1;
    if (type === "loop.iteration.done") counts.succeeded += 1;
    if (type === "loop.iteration.failed") counts.failed += 1;
  }
  const statuses = { success: "COMPLETED", error: "FAILED", cancelled: "CANCELLED" };
  return { events: events.length, status: finished ? statuses[finished.status] : "RUNNING", steps };
}

async function readApi(url, id) {
  const { execution } = await request(url, `api/executions/${id}`);
  const graph = await request(url, `api/executions/${id}/graph`);
  const reached = graph.steps.filter((step) => step.runs > 0);
  const toCounts = (step) => ({
    runs: step.runs,
    succeeded: step.loop?.succeeded ?? 0,
    failed: step.loop?.failed ?? 0,
  });
  return {
    events: execution.seq,
    status: execution.status,
    steps: new Map(reached.map((step) => [step.step, toCounts(step)])),
  };
}

/** Reads the same numbers from the page of a run. */
async function readPage(page, url, id) {
  await page.goto(`${url}runs/${id}`);
  await page.waitForSelector(".step-node");
  const word = (await page.textContent(".run-state .status")).trim();
  const facts = await page.textContent(".run-facts");
  const nodes = await page.$$eval(".step-node", (elements) =>
    elements.map((element) => {
      const words = element.querySelector(".loop-bar")?.getAttribute("aria-label") ?? "";
      const count = (name) => Number(new RegExp(`(\\d+) ${name}`).exec(words)?.[1] ?? 0);
      return {
        step: element.querySelector(".step-name").textContent,
        isReached: element.dataset.mark !== "none",
        runs: Number(/(\d+) runs/.exec(element.textContent)?.[1] ?? 1),
        succeeded: count("succeeded"),
        failed: count("failed"),
      };
    }),
  );
  const reached = nodes.filter((node) => node.isReached);
  return {
    events: Number(/([\d,]+) events/.exec(facts)[1].replaceAll(",", "")),
    status: Object.keys(statusWords).find((status) => statusWords[status] === word),
    steps: new Map(reached.map(({ step, runs, succeeded, failed }) => [step, { runs, succeeded, failed }])),
  };
}

async function checkRun(page, url, id, status) {
  const events = await readLog(url, id);
  const expected = countEvents(events);
  assert.equal(expected.status, status);
  assert.deepEqual(await readApi(url, id), expected, `the API and the log of run ${id}`);
  assert.deepEqual(await readPage(page, url, id), expected, `the page and the log of run ${id}`);
  return events;
}

/** The comparison finds an event that is missing in the log, and a wrong count. */
async function checkNegativeControl(url, id, events) {
  const api = await readApi(url, id);
  const isIteration = (event) => event.event_type.startsWith("loop.iteration.done");
  const first = events.findIndex(isIteration);
  const incomplete = events.filter((_, index) => index !== first);
  assert.notDeepEqual(api, countEvents(incomplete), "a missing event is found");
  const renamed = events.map((event, index) => (index === first ? { ...event, event_type: "other" } : event));
  assert.notDeepEqual(api, countEvents(renamed), "a wrong count is found");
}

async function checkCounts(page, url, expected) {
  const facets = await request(url, "api/executions/facets");
  const counted = Object.fromEntries(facets.statuses.map(({ value, count }) => [value, count]));
  assert.deepEqual(counted, expected);
  const { executions } = await request(url, "api/executions?limit=1000");
  for (const [status, count] of Object.entries(expected)) {
    assert.equal(executions.filter((run) => run.status === status).length, count);
  }
  await page.goto(`${url}runs`);
  await page.waitForSelector(".status-toggles button");
  const shown = await page.$$eval(".status-toggles button", (buttons) =>
    buttons.map((button) => button.textContent.trim()),
  );
  const words = Object.entries(expected).map(([status, count]) => `${statusWords[status]}${count}`);
  assert.deepEqual(shown.sort(), words.sort());
}

export async function scenario({ openPage, url }) {
  const page = await openPage();
  const runs = [
    [await start(url, greeting), "COMPLETED"],
    [await start(url, division), "FAILED"],
    [await start(url, loop), "COMPLETED"],
    [await start(url, failingLoop), "COMPLETED"],
  ];
  const suspended = await start(url, waiting);
  const events = [];
  for (const [id, status] of runs) {
    await waitForStatus(url, id, status);
    events.push(await checkRun(page, url, id, status));
  }
  await checkNegativeControl(url, runs[2][0], events[2]);
  await checkCounts(page, url, { COMPLETED: 3, FAILED: 1, RUNNING: 1 });
  await request(url, `api/executions/${suspended}/cancel`, { method: "POST", body: {} });
  await waitForStatus(url, suspended, "CANCELLED");
  await checkRun(page, url, suspended, "CANCELLED");
  await checkCounts(page, url, { COMPLETED: 3, FAILED: 1, CANCELLED: 1 });
}
