// The client behind a proxy that adds a path prefix, at every depth of its pages.
import assert from "node:assert/strict";
import { createServer, request as requestUpstream } from "node:http";
import { start, waitForStatus } from "./api.mjs";
import { greeting } from "./playbooks.mjs";

const PREFIX = "/tools/noetl";

function startProxy(url) {
  const upstream = new URL(url);
  const server = createServer((request, response) => {
    if (!request.url.startsWith(`${PREFIX}/`)) return response.writeHead(404).end();
    const headers = { ...request.headers, host: upstream.host };
    const path = request.url.slice(PREFIX.length);
    const options = { method: request.method, headers, host: upstream.hostname, port: upstream.port, path };
    const forwarded = requestUpstream(options, (reply) => {
      response.writeHead(reply.statusCode, reply.headers);
      reply.pipe(response);
    });
    forwarded.on("error", () => response.destroy());
    response.on("close", () => forwarded.destroy());
    request.pipe(forwarded);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

export async function scenario({ openPage, url }) {
  const id = await start(url, greeting);
  await waitForStatus(url, id, "COMPLETED");
  const proxy = await startProxy(url);
  const root = `http://127.0.0.1:${proxy.address().port}${PREFIX}/`;
  const page = await openPage();
  await page.goto(root);
  await page.click("nav >> text=Runs");
  await page.click(".run-link >> nth=0");
  await page.waitForSelector(".react-flow__node");
  assert.equal(new URL(page.url()).pathname, `${PREFIX}/runs/${id}`);
  await page.reload();
  await page.waitForSelector(".react-flow__node");
  await page.goto(`${root}playbooks/demo%2Fgreeting`);
  await page.waitForSelector("text=demo/greeting");
  await page.reload();
  await page.waitForSelector("text=demo/greeting");
  proxy.closeAllConnections();
  proxy.close();
}
