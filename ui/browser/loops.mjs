// A long loop with some failures: the heatmap and the timeline show what the API counts, with the mouse and the keyboard.
import assert from "node:assert/strict";
import { request, start, waitForStatus } from "./api.mjs";
import { failingLoop } from "./playbooks.mjs";

const items = 100_000;
const every = 9_973;
const failures = Array.from({ length: Math.ceil((items - 1) / every) }, (_, index) => index * every + 1);

export async function scenario({ openPage, url }) {
  const id = await start(url, failingLoop, { items, every });
  const page = await openPage();
  await watchLiveLoop(page, url, id);
  await waitForStatus(url, id, "COMPLETED");
  await compareCounts(page, url, id);
  await openFailedCell(page, url, id);
  await moveWithKeys(page, url, id);
  await markCells(page, url, id);
  await checkTimeline(page, url, id);
}

/** The heatmap follows a run that is going. */
async function watchLiveLoop(page, url, id) {
  await page.goto(`${url}runs/${id}?tab=loops`);
  await page.waitForSelector(".heatmap-map");
  const readSuccess = async () => (await readLegend(page)).success ?? 0;
  const before = await readSuccess();
  await page.waitForFunction((count) => {
    const entry = document.querySelector(".cell-legend [data-status=success] strong");
    return entry && Number(entry.textContent.replaceAll(",", "")) > count;
  }, before);
}

async function readLegend(page) {
  return page.$$eval(".cell-legend [data-status]", (entries) =>
    Object.fromEntries(
      entries.map((entry) => [
        entry.dataset.status,
        Number(entry.querySelector("strong").textContent.replaceAll(",", "")),
      ]),
    ),
  );
}

async function compareCounts(page, url, id) {
  await page.goto(`${url}runs/${id}?tab=loops`);
  await page.waitForSelector(`.cell-legend [data-status=error]`);
  const cells = await request(url, `api/executions/${id}/loops/each/cells`);
  const counts = await request(url, `api/executions/${id}/loops/each`);
  assert.deepEqual(await readLegend(page), { error: counts.failed, success: counts.total - counts.failed });
  assert.equal(counts.failed, failures.length);
  assert.equal(cells.totals.error, counts.failed);
  assert.equal(cells.cell_size, 5);
  const failedCells = [...cells.statuses].flatMap((letter, cell) => (letter === "e" ? [cell] : []));
  assert.deepEqual(
    failedCells,
    failures.map((iteration) => Math.floor(iteration / cells.cell_size)),
  );
  assert.equal(await page.innerText(".failure-groups .failure-count"), String(counts.failed));
  const [failed, succeeded, next] = await readColors(
    page,
    [0, 1, 2].map((distance) => failedCells[1] + distance),
  );
  assert.notEqual(failed, succeeded, "a failed cell has another color");
  assert.equal(succeeded, next, "cells with the same status have the same color");
}

/** The color of the middle of cells on the canvas. */
async function readColors(page, cells) {
  return page.$eval(
    ".heatmap-map",
    (map, wanted) => {
      const canvas = map.querySelector("canvas");
      const [columns, size] = [Number(map.dataset.columns), Number(map.dataset.size)];
      const ratio = canvas.width / (columns * size);
      return wanted.map((cell) => {
        const x = ((cell % columns) + 0.5) * size * ratio;
        const y = (Math.floor(cell / columns) + 0.5) * size * ratio;
        return canvas.getContext("2d").getImageData(Math.floor(x), Math.floor(y), 1, 1).data.join(",");
      });
    },
    cells,
  );
}

/** Clicks the cell of an iteration. */
async function clickCell(page, cell) {
  const map = page.locator(".heatmap-map");
  const { columns, size } = await map.evaluate(({ dataset }) => ({
    columns: Number(dataset.columns),
    size: Number(dataset.size),
  }));
  const position = { x: ((cell % columns) + 0.5) * size, y: (Math.floor(cell / columns) + 0.5) * size };
  await map.click({ position });
}

/** A click on a cell of several iterations shows them one by one; a click on the failed one opens it. */
async function openFailedCell(page, url, id) {
  const wanted = failures[1];
  await clickCell(page, Math.floor(wanted / 5));
  await page.waitForURL(/range=9970-9974/);
  await page.waitForSelector("text=9,970 to 9,974");
  await clickCell(page, wanted - 9970);
  await page.waitForURL(new RegExp(`iteration=${wanted}`));
  await page.waitForSelector(`.drawer[aria-label="Details of each#${wanted}"]`);
  assert.ok(page.url().startsWith(`${url}runs/${id}`));
}

async function moveWithKeys(page, url, id) {
  await page.goto(`${url}runs/${id}?tab=loops&range=9970-9974`);
  await page.focus(".heatmap-map");
  const readWords = () => page.innerText("[data-testid=cell-words]");
  assert.equal(await readWords(), "iteration 9,970, succeeded");
  for (const key of ["ArrowRight", "End"]) await page.keyboard.press(key);
  assert.equal(await readWords(), "iteration 9,974, failed");
  await page.keyboard.press("Enter");
  await page.waitForSelector('.drawer[aria-label="Details of each#9974"]');
}

async function markCells(page, url, id) {
  await page.goto(`${url}runs/${id}?tab=loops`);
  await page.focus(".heatmap-map");
  for (const key of ["ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"]) await page.keyboard.press(key);
  await page.waitForSelector("text=15 iterations marked");
  assert.match(page.url(), /marked=5-19/);
  await page.keyboard.press("Escape");
  await page.waitForSelector("text=15 iterations marked", { state: "detached" });
}

async function checkTimeline(page, url, id) {
  const timeline = await request(url, `api/executions/${id}/timeline`);
  const { loop } = timeline.steps.find((step) => step.step === "each");
  assert.deepEqual([loop.total, loop.failed, loop.succeeded], [items, failures.length, items - failures.length]);
  await page.goto(`${url}runs/${id}?tab=timeline`);
  await page.waitForSelector(".timeline-band .band-success");
  const rows = await page.$$eval(".timeline-row", (list) => list.length);
  assert.equal(rows, 3, "the loop is one row, and the step after it has a row and a task");
  await page.click(".timeline-row [aria-expanded=false]");
  await page.waitForSelector(`.timeline-open:has-text("each#${failures[1]}, failed")`);
  await page.click("text=Critical path");
  await page.waitForSelector("text=2 of 2 step runs");
  await page.focus(".timeline-axis");
  await page.keyboard.press("ArrowUp");
  await page.waitForURL(/time=\d+-\d+/);
  await page.click(`.timeline-open:has-text("each#${failures[1]}, failed")`);
  await page.waitForSelector(`.drawer[aria-label="Details of each#${failures[1]}"]`);
}
