// Output that is followed while the server is killed and comes back: the view recovers by itself and misses no line. The
// scenario prints `restart` when the process that started it must kill and restart the server.
import assert from "node:assert/strict";
import { request, start } from "./api.mjs";
import { printing } from "./playbooks.mjs";

export async function scenario({ openPage, url }) {
  const page = await openPage();
  const id = await start(url, printing);
  await page.goto(`${url}runs/${id}?tab=logs`);
  await page.waitForSelector(".log-text >> text=/^line 5$/");
  console.log("restart");
  await waitForServer(url, id);
  const before = await readLastNumber(url, id);
  await page.waitForFunction(
    (last) => {
      const lines = [...document.querySelectorAll(".log-text")].map((line) => line.innerText);
      return Number(lines.at(-1)?.match(/^line (\d+)$/)?.[1] ?? -1) > last;
    },
    before,
    { timeout: 60_000 },
  );
  await checkNoLineIsMissing(page, url, id);
}

/** Waits until the server does not answer, and then until it does. */
async function waitForServer(url, id) {
  const isUp = () =>
    request(url, `api/executions/${id}/status`).then(
      () => true,
      () => false,
    );
  for (const expected of [false, true]) {
    while ((await isUp()) !== expected) await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function readLines(url, id) {
  const { lines } = await request(url, `api/executions/${id}/logs?limit=10000`);
  return lines;
}

/** The number in the last line that is stored. */
async function readLastNumber(url, id) {
  const texts = (await readLines(url, id)).map((line) => line.text);
  return Number(texts.findLast((text) => /^line \d+$/.test(text))?.split(" ")[1] ?? -1);
}

/** What the view has loaded is what the server has, in the same order. */
async function checkNoLineIsMissing(page, url, id) {
  const download = page.waitForEvent("download");
  await page.click("[aria-label='Download these lines']");
  const stream = await (await download).createReadStream();
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const shown = Buffer.concat(chunks).toString().trim().split("\n");
  const stored = (await readLines(url, id)).map(({ time, step, task, text }) => `${time} ${step}/${task} ${text}`);
  assert.ok(shown.length > 10, "the view has lines");
  assert.deepEqual(shown, stored.slice(0, shown.length));
  // The comparison fails if a line is left out.
  assert.notDeepEqual([...shown.slice(0, 3), ...shown.slice(4)], stored.slice(0, shown.length - 1));
}
