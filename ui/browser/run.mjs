// Runs one scenario in a real browser against a running server, and fails on any error of the page:
//   CHROMIUM=/usr/bin/chromium node browser/run.mjs SCENARIO URL [TOKENS]
// TOKENS is a JSON object with an access token for each role, for scenarios that sign in.
import { startBrowser } from "./browser.mjs";

const [name, url, tokens = "{}"] = process.argv.slice(2);
const { scenario } = await import(`./${name}.mjs`);
const browser = await startBrowser();
const errors = [];
const pages = [];

/** Opens a page of its own that reports every error and every violation of the Content-Security-Policy. */
async function openPage(options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on("pageerror", (error) => errors.push(String(error.stack ?? error)));
  page.on("console", (message) => {
    // The browser itself reports refused requests; scenarios check them.
    const isRefusal = message.text().startsWith("Failed to load resource");
    const { url: source, lineNumber } = message.location();
    if (message.type() === "error" && !isRefusal) errors.push(`${message.text()} (${source}:${lineNumber})`);
  });
  pages.push(page);
  return page;
}

let failure;
try {
  await scenario({ openPage, url: url.endsWith("/") ? url : `${url}/`, tokens: JSON.parse(tokens) });
} catch (error) {
  failure = error;
}
if (failure || errors.length > 0) {
  for (const page of pages) {
    console.error(`at ${page.url()}:\n${await page.innerText("body").catch(() => "")}\n`);
  }
  for (const error of errors) console.error(`page error: ${error}`);
  if (failure) console.error(failure);
}
await browser.close();
process.exit(failure || errors.length > 0 ? 1 : 0);
