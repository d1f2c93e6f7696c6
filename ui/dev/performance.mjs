// Measures the client in Chromium and prints each figure with its limit; a figure beyond its limit makes the script fail:
//   node dev/performance.mjs PATH_OF_NOETL                            # starts a server with an empty store
//   NOETL_SERVER=http://127.0.0.1:8082 node dev/performance.mjs       # uses a running one
// The binary must have been built with the client.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { request } from "../browser/api.mjs";
import { startBrowser } from "../browser/browser.mjs";

const [binary] = process.argv.slice(2);
const server = binary ? await startServer(binary) : undefined;
const url = server?.url ?? new URL("/", process.env.NOETL_SERVER ?? "http://127.0.0.1:8082").href;
const kibibytes = 1024;
const followMs = 10_000;

/** About 200 events per second: each iteration waits, and four of them run at a time. */
const busy = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: busy, path: performance/busy }
workload: { n: 4000 }
workflow:
  - step: each
    loop: { in: "{{ range(workload.n) }}", iterator: n, spec: { mode: parallel, max_in_flight: 4 } }
    tool: { kind: python, code: "import time; time.sleep(0.08); result = 1" }
`;

async function startServer(path) {
  const port = await new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port: free } = probe.address();
      probe.close(() => resolve(free));
    });
  });
  const folder = mkdtempSync(join(tmpdir(), "noetl-performance-"));
  const process_ = spawn(path, ["serve", "--listen", `127.0.0.1:${port}`], { cwd: folder, stdio: "ignore" });
  const address = `http://127.0.0.1:${port}/`;
  for (let tries = 0; ; tries += 1) {
    const isReady = await fetch(`${address}readyz`).then(
      (response) => response.ok,
      () => false,
    );
    if (isReady) break;
    if (tries > 300) throw new Error(`${path} serve did not become ready`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const stop = async () => {
    process_.kill();
    await new Promise((resolve) => process_.once("exit", resolve));
    rmSync(folder, { recursive: true, force: true });
  };
  return { url: address, stop };
}

const figures = [];
const record = (name, value, unit, limit) => figures.push({ name, value, unit, limit });

async function measureInitialScripts() {
  const html = await (await fetch(url)).text();
  let bytes = 0;
  for (const [, path] of html.matchAll(/(?:src|href)="([^"]+\.js)"/g)) {
    const script = await fetch(new URL(path, url));
    bytes += gzipSync(Buffer.from(await script.arrayBuffer())).length;
  }
  if (bytes === 0) throw new Error(`${url} has no scripts: build noetl with the client`);
  record("initial JavaScript, gzip", bytes / kibibytes, "KiB", 350);
}

async function measureFirstPaint(page) {
  const times = [];
  for (let count = 0; count < 5; count += 1) {
    await page.goto(`${url}runs`);
    await page.waitForSelector("main");
    await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
    times.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
  }
  record("first paint on loopback, median", times.sort((a, b) => a - b)[2], "ms", 500);
}

/** The time from a key to the next frame with its result. */
async function measureInteraction(page) {
  await page.goto(`${url}runs`);
  await page.waitForSelector(".run-link");
  await page.evaluate(() => {
    window.keyTimes = [];
    document.addEventListener(
      "keydown",
      () => {
        const start = performance.now();
        requestAnimationFrame(() => setTimeout(() => window.keyTimes.push(performance.now() - start)));
      },
      { capture: true },
    );
  });
  for (let count = 1; count <= 20; count += 1) {
    await page.keyboard.press(count % 2 === 1 ? "j" : "k");
    await page.waitForFunction((expected) => window.keyTimes.length >= expected, count);
  }
  const times = await page.evaluate(() => window.keyTimes);
  record("key to the next frame in the list, p95", times.sort((a, b) => a - b)[18], "ms", 100);
}

async function measureLongestTask(page) {
  const started = await request(url, "api/execute", { method: "POST", body: { playbook: busy } });
  const id = started.execution_id;
  await page.goto(`${url}runs`);
  await page.click(`[data-id="${id}"]`);
  await page.waitForSelector(".run-state");
  await page.evaluate(() => {
    window.longTasks = [];
    const observer = new PerformanceObserver((list) => {
      window.longTasks.push(...list.getEntries().map((entry) => entry.duration));
    });
    observer.observe({ type: "longtask" });
  });
  const before = await request(url, `api/executions/${id}/status`);
  await page.waitForTimeout(followMs);
  const after = await request(url, `api/executions/${id}/status`);
  const longest = await page.evaluate(() => Math.max(0, ...window.longTasks));
  await checkLongTasksAreReported(page);
  await request(url, `api/executions/${id}/cancel`, { method: "POST", body: {} });
  const rate = (after.seq - before.seq) / (followMs / 1000);
  record(`longest task while a run with ${rate.toFixed(0)} events/s is followed`, longest, "ms", 200);
}

/** A task that is long on purpose is reported; otherwise the figure would always be 0. */
async function checkLongTasksAreReported(page) {
  await page.evaluate(() => {
    setTimeout(() => {
      const end = performance.now() + 120;
      while (performance.now() < end);
    });
  });
  await page.waitForFunction(() => window.longTasks.some((duration) => duration >= 100));
}

const browser = await startBrowser();
const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
await measureInitialScripts();
await measureFirstPaint(page);
await measureLongestTask(page);
await measureInteraction(page);
await browser.close();
await server?.stop();
for (const { name, value, unit, limit } of figures) {
  const mark = value <= limit ? "" : "  beyond the limit";
  console.log(`${value.toFixed(1).padStart(8)} ${unit.padEnd(4)} ${name} (limit ${limit} ${unit})${mark}`);
}
process.exit(figures.every(({ value, limit }) => value <= limit) ? 0 : 1);
