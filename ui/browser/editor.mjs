// Writing a playbook in the browser: a mistake with its code, line and remedy, its repair by completion, the graph, a
// version and its run; drafts, the guard of unsaved changes, and the repair of a failed run.
import assert from "node:assert/strict";
import { request, start, waitForStatus } from "./api.mjs";
import { division } from "./playbooks.mjs";

const misspelled = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: written, path: demo/written }
workload: { city: Riga }
workflow:
  - step: start
    tol: { kind: noop }
    next: { arcs: [{ step: finish }] }
  - step: finish
    tool: { kind: noop, result: { city: "{{ workload.city }}" } }
`;

const editor = ".cm-content";
const runId = (page) => new URL(page.url()).pathname.split("/").pop();

/** Replaces the text of the editor as a person who pastes does. */
async function replaceText(page, text) {
  await page.click(editor);
  await page.keyboard.press("ControlOrMeta+a");
  await page.locator(editor).evaluate((content, pasted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", pasted);
    content.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  }, text);
}

export async function scenario({ openPage, url }) {
  const page = await openPage();
  await repairByCompletion(page, url);
  await saveAndRun(page, url);
  await keepDraft(page, url);
  await repairFailedRun(page, url);
  await keepLargeTextUsable(page, url);
}

async function repairByCompletion(page, url) {
  await page.goto(`${url}playbooks`);
  await page.click("text=New playbook");
  await page.waitForURL(/playbooks\/new/);
  await page.waitForSelector("text=No problems found");
  await replaceText(page, misspelled);
  const problem = page.locator(".diagnostic-row").first();
  await problem.getByText("did you mean").waitFor();
  assert.match(await problem.innerText(), /7:5/);
  assert.ok(await page.getByRole("button", { name: "Save version" }).isDisabled(), "an invalid text cannot be saved");
  await page.getByRole("button", { name: "Explain E0107" }).first().click();
  await page.waitForSelector(".diagnostic-explanation >> text=Unknown key");
  // A click on the problem puts the cursor at the word; completion offers the right one.
  await problem.locator(".diagnostic").click();
  await page.waitForURL(/line=7/);
  for (let index = 0; index < 3; index += 1) await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Control+Space");
  await page.locator(".cm-tooltip-autocomplete li[aria-selected] >> text=tool").waitFor();
  // A list that has just opened does not take the Enter key yet.
  await page.waitForTimeout(200);
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=No problems found");
  assert.match(await page.innerText(editor), /^\s+tool: \{ kind: noop \}$/m);
  await page.locator(".step-name >> text=finish").waitFor();
  assert.equal(await page.locator(".editor-graph .react-flow__node").count(), 2);
}

async function saveAndRun(page, url) {
  await page.keyboard.press("ControlOrMeta+s");
  await page.waitForURL(/playbooks\/demo%2Fwritten\/edit/);
  await page.waitForSelector("text=no unsaved changes");
  const entry = await request(url, "api/catalog/resource", { method: "POST", body: { path: "demo/written" } });
  assert.equal(entry.version, 1);
  assert.match(entry.content, /tool: \{ kind: noop \}/);
  await page.click("text=Run…");
  await page.click("[role=dialog] .button-primary");
  await page.waitForSelector(".run-state >> text=completed");
  const run = await request(url, `api/executions/${runId(page)}`);
  assert.deepEqual(run.result, { city: "Riga" });
}

/** A change survives leaving the page, and an unchanged text keeps its version. */
async function keepDraft(page, url) {
  const address = `${url}playbooks/demo%2Fwritten/edit`;
  await page.goto(address);
  await page.waitForSelector("text=No problems found");
  await page.click(editor);
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.insertText("# a note\n");
  await page.waitForSelector("text=unsaved changes");
  await page.locator(".editor-facts a").click();
  await page.click("text=Keep the draft and leave");
  await page.waitForURL(/playbooks\/demo%2Fwritten(\?|$)/);
  await page.goto(address);
  await page.waitForSelector("text=Your unsaved changes");
  assert.match(await page.innerText(editor), /# a note/);
  await page.click("text=Discard changes");
  await page.waitForSelector("text=no unsaved changes");
  assert.doesNotMatch(await page.innerText(editor), /# a note/);
  await page.goto(address);
  await page.waitForSelector("text=No problems found");
  assert.equal(await page.locator("text=Your unsaved changes").count(), 0);
}

/** From the line that failed to a new version, and a retry with it. */
async function repairFailedRun(page, url) {
  const id = await start(url, division);
  await waitForStatus(url, id, "FAILED");
  await page.goto(`${url}runs/${id}?tab=source`);
  await page.click("text=Edit source");
  await page.waitForURL(/demo%2Fdivision\/edit/);
  await page.waitForSelector("text=No problems found");
  await replaceText(page, division.replace("10 / divisor", "10 / (divisor or 1)"));
  await page.waitForSelector("text=No problems found");
  await page.click("text=Save version");
  await page.click("text=Retry with this version");
  await page.waitForSelector(".run-state >> text=completed");
  assert.equal(runId(page), id);
}

/** A playbook of nearly 1 MiB can be opened and changed. */
async function keepLargeTextUsable(page, url) {
  const filler = `      # ${"x".repeat(110)}\n`.repeat(8000);
  const text = misspelled.replace("tol:", "tool:").replaceAll("written", "large") + filler;
  await request(url, "api/catalog/register", { method: "POST", body: { content: text } });
  await page.goto(`${url}playbooks/demo%2Flarge/edit`);
  await page.waitForSelector("text=No problems found");
  await page.click(editor);
  await page.keyboard.press("ControlOrMeta+Home");
  const begin = Date.now();
  await page.keyboard.type("# first line");
  await page.waitForSelector(`${editor} >> text=# first line`);
  const took = Date.now() - begin;
  assert.ok(took < 5000, `typing 12 characters into 1 MiB took ${took} ms`);
}
