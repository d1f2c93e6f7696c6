// Takes the pictures of the guide: the views with the runs of `playbooks/`, in the folder NOETL_PICTURES.
import assert from "node:assert/strict";
import { mkdirSync, statSync } from "node:fs";
import { readPlaybook, request, start, waitForStatus } from "./api.mjs";

/** An empty page is smaller. */
const bytesMin = 15_000;

async function prepareRuns(url) {
  const loop = await start(url, readPlaybook("load-patients"));
  const failed = await start(url, readPlaybook("score-orders"));
  const approval = await start(url, readPlaybook("publish-prices"));
  for (const name of ["score-orders", "load-patients"]) await start(url, readPlaybook(name));
  await start(url, readPlaybook("score-orders"), { orders: [3, 5, 2] });
  await waitForStatus(url, loop, "COMPLETED");
  await waitForStatus(url, failed, "FAILED");
  for (;;) {
    const active = await request(url, "api/executions?status=RUNNING");
    if (active.executions.length <= 1) return { loop, failed, approval };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The address of each picture, and what must be visible before it is taken. */
function listPictures({ loop, failed, approval }) {
  return {
    runs: ["runs", ".run-link"],
    failure: [`runs/${failed}?step=score&task=rate`, ".excerpt-line[data-failing]"],
    timeline: [`runs/${loop}?tab=timeline`, ".run-tab svg, .run-tab canvas"],
    loops: [`runs/${loop}?tab=loops`, ".run-tab canvas"],
    state: [`runs/${failed}?tab=state&at=20`, ".run-tab >> text=workload"],
    inbox: [`inbox?run=${approval}`, ".inbox-answer"],
    "run-form": ["playbooks/demo%2Fscore-orders?dialog=run", "[role=dialog] input"],
    rerun: [`runs/${failed}?dialog=rerun`, "[role=dialog] select"],
    editor: ["playbooks/demo%2Fscore-orders/edit", ".step-node"],
  };
}

export async function scenario({ openPage, url }) {
  const folder = process.env.NOETL_PICTURES;
  assert.ok(folder, "NOETL_PICTURES names a folder");
  mkdirSync(folder, { recursive: true });
  const pictures = listPictures(await prepareRuns(url));
  const page = await openPage({ viewport: { width: 1280, height: 800 }, colorScheme: "light" });
  const take = async (name, path, selector) => {
    await page.goto(url + path);
    await page.waitForSelector(selector);
    await page.waitForTimeout(500);
    const file = `${folder}/${name}.png`;
    await page.screenshot({ path: file });
    assert.ok(statSync(file).size > bytesMin, `the picture ${name} is not empty`);
  };
  for (const [name, [path, selector]] of Object.entries(pictures)) await take(name, path, selector);
  await page.emulateMedia({ colorScheme: "dark" });
  await take("run-dark", ...pictures.failure);
}
