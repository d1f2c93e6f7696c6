// Time travel: every tab shows the run at the event of the slider, and the state there is what a replay of the log computes.
import assert from "node:assert/strict";
import { request, start, waitForStatus } from "./api.mjs";
import { division, ledger } from "./playbooks.mjs";

export async function scenario({ openPage, url }) {
  const page = await openPage();
  const id = await start(url, ledger);
  await waitForStatus(url, id, "COMPLETED");
  await compareWithReplay(page, url, id);
  await useKeyboard(page, url, id);
  await showMoment(page, url, id);
  await compareStates(page, url, id);
  await stepThroughFailures(page, url);
  await openMatchedRule(page, url, id);
}

const parameter = (page, name) => new URL(page.url()).searchParams.get(name);
const readReplay = (url, id, seq) => request(url, `api/replay/state?execution_id=${id}&as_of_seq=${seq}`);

/** The variables and the ends of steps in the state tab. */
async function readShown(page, seq) {
  await page.waitForSelector(`[role=region][aria-label="State after event ${seq}"]`);
  return page.evaluate(() => {
    const entries = [...document.querySelectorAll("dl[aria-label=ctx] .state-entry")];
    const texts = entries.map((entry) => [entry.dataset.key, entry.querySelector(".state-value").innerText.trim()]);
    const steps = [...document.querySelectorAll("[data-step]")];
    const ends = steps.map((step) => [step.dataset.step, step.dataset.status]);
    return { ctx: Object.fromEntries(texts), steps: Object.fromEntries(ends) };
  });
}

/** The same from the internal state that the server replays. */
function summarizeReplay({ state }) {
  const ctx = Object.entries(state.ctx).map(([key, value]) => [key, JSON.stringify(value)]);
  const ended = Object.entries(state.steps).filter(([, step]) => step.latest);
  const ends = ended.map(([name, { latest }]) => [name, latest.ok ? "success" : "error"]);
  return { ctx: Object.fromEntries(ctx), ends: Object.fromEntries(ends) };
}

function isSameState(shown, replay) {
  const { ctx, ends } = summarizeReplay(replay);
  const shownEnds = Object.entries(shown.steps).filter(([, status]) => ["success", "error"].includes(status));
  return (
    JSON.stringify(Object.entries(shown.ctx).sort()) === JSON.stringify(Object.entries(ctx).sort()) &&
    JSON.stringify(shownEnds.sort()) === JSON.stringify(Object.entries(ends).sort())
  );
}

async function compareWithReplay(page, url, id) {
  const { events } = await request(url, `api/executions/${id}/events?type=ctx.patched,step.done&limit=1000`);
  const { seq: newest } = await request(url, `api/executions/${id}/status`);
  const patches = events.filter((event) => event.event_type === "ctx.patched");
  assert.ok(patches.length >= 3, "the run writes variables");
  for (const { seq } of events.filter((event) => event.seq < newest)) {
    await page.goto(`${url}runs/${id}?tab=state&at=${seq}`);
    const shown = await readShown(page, seq);
    assert.ok(isSameState(shown, await readReplay(url, id, seq)), `event ${seq}: ${JSON.stringify(shown)}`);
  }
  // The state after another event differs, so the comparison can fail.
  const shown = await readShown(page, events.findLast((event) => event.seq < newest).seq);
  assert.ok(!isSameState(shown, await readReplay(url, id, patches[0].seq)), "two different states are told apart");
  await page.waitForSelector(".time-check >> text=replayed state = live state");
}

async function useKeyboard(page, url, id) {
  const { seq: newest } = await request(url, `api/executions/${id}/status`);
  await page.goto(`${url}runs/${id}?tab=state`);
  await readShown(page, newest);
  await page.keyboard.press(",");
  await readShown(page, newest - 1);
  assert.equal(parameter(page, "at"), String(newest - 1));
  await page.focus("[aria-label='Time travel'] input[type=range]");
  await page.keyboard.press("ArrowLeft");
  await readShown(page, newest - 2);
  await page.keyboard.press("Home");
  await readShown(page, 1);
  await page.keyboard.press(".");
  await readShown(page, 2);
  await page.keyboard.press("End");
  await readShown(page, newest);
  assert.equal(parameter(page, "at"), null);
}

/** The other tabs at the event before the second step was scheduled. */
async function showMoment(page, url, id) {
  const { events } = await request(url, `api/executions/${id}/events?type=step.scheduled&step=add`);
  const at = events[0].seq - 1;
  await page.goto(`${url}runs/${id}?at=${at}`);
  await page.waitForSelector(".react-flow__node[data-id=add]");
  const readNode = (step) => page.getAttribute(`.react-flow__node[data-id=${step}]`, "aria-label");
  assert.match(await readNode("open"), /success|done|succeeded/i);
  assert.match(await readNode("add"), /not reached/i);
  await page.keyboard.press("e");
  await page.waitForSelector(`.tab-bar >> text=${at} events`);
  await page.keyboard.press("l");
  await page.waitForSelector("text=opened the ledger");
  assert.equal(await page.locator("text=added an entry").count(), 0);
  await page.click("[aria-label='Time travel'] >> text=End");
  await page.waitForSelector("text=added an entry");
  await page.goto(`${url}runs/${id}?at=${at}&tab=results`);
  await page.waitForSelector("text=The run had no result at event");
}

async function compareStates(page, url, id) {
  const { events } = await request(url, `api/executions/${id}/events?type=ctx.patched`);
  const { seq } = events.at(-1);
  await page.goto(`${url}runs/${id}?tab=state&at=${seq}`);
  await page.click("text=Last change");
  await page.waitForSelector(".state-change[data-kind=changed][data-key=total]");
  await page.click(".state-change .link");
  await page.waitForSelector(`.event[data-target] >> text=ctx.patched`);
  assert.equal(parameter(page, "seq"), String(seq));
}

async function stepThroughFailures(page, url) {
  const failed = await start(url, division);
  await waitForStatus(url, failed, "FAILED");
  const { groups } = await request(url, `api/executions/${failed}/failures`);
  const seq = groups[0].seqs[0];
  await page.goto(`${url}runs/${failed}?tab=events`);
  await page.waitForSelector(".time-mark");
  await page.click("[aria-label='Previous failure']");
  await page.waitForURL(new RegExp(`at=${seq}\\b`));
  await page.waitForSelector(`.tab-bar >> text=${seq} events`);
}

async function openMatchedRule(page, url, id) {
  await page.goto(`${url}runs/${id}?step=add&task=entry`);
  await page.waitForSelector("text=Rule 1 matched");
  const line = ledger.split("\n").findIndex((text) => text.includes("- when:")) + 1;
  await page.click(`.drawer >> text=line ${line}`);
  await page.waitForURL(new RegExp(`tab=source.*line=${line}|line=${line}.*tab=source`));
}
