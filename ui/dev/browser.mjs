// Starts Chromium for the scripts that look at the built client.
import { chromium } from "playwright-core";

const flags = [
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Where the built client is served. */
export const base = process.env.URL ?? "http://127.0.0.1:8082/";

/** Where pictures are kept. */
export const pictures = process.env.OUT ?? "/tmp/noetl-ui-pictures";

export function startBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
}

/** Calls `report` for errors of the page, and for what the policy blocks. */
export function watchPage(page, report) {
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) report(message.text().slice(0, 300));
  });
  page.on("pageerror", (error) => report(String(error.stack ?? error).slice(0, 500)));
}
