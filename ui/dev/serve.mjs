// Serves dist/ as the binary does: the production headers, index.html for every page path with <base href>, and the API
// of NOETL_SERVER. PREFIX serves it under a path prefix.
import { createReadStream, existsSync, readFileSync } from "node:fs";
import { createServer, request as requestUpstream } from "node:http";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { createMock } from "./mock.mjs";

const server = new URL(process.env.NOETL_SERVER ?? "http://127.0.0.1:8082");
const port = Number(process.env.PORT ?? 4173);
const prefix = process.env.PREFIX ?? "";
const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const types = {
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
  ".txt": "text/plain",
};
export const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "font-src 'self'; base-uri 'self'; frame-ancestors 'none'; form-action 'self'";

const mock = createMock(server.href.replace(/\/$/, ""));

createServer((request, response) => {
  if (!request.url.startsWith(prefix)) return response.writeHead(404).end();
  request.url = request.url.slice(prefix.length) || "/";
  const path = request.url.split("?")[0];
  if (/^\/(api|openapi\.json|docs|metrics)(\/|$)/.test(path))
    return mock(request, response, () => proxy(request, response));
  const file = `${dist}${decodeURIComponent(path)}`;
  const type = types[extname(path)];
  if (type && !path.includes("..") && existsSync(file)) {
    response.writeHead(200, { "content-type": type, "content-security-policy": policy });
    return createReadStream(file).pipe(response);
  }
  const depth = path.split("/").length - 2;
  const base = `<base href="${depth === 0 ? "./" : "../".repeat(depth)}" />`;
  const html = readFileSync(`${dist}index.html`, "utf8").replace("<head>", `<head>${base}`);
  response.writeHead(200, { "content-type": "text/html; charset=utf-8", "content-security-policy": policy });
  response.end(html);
}).listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}${prefix}/`));

function proxy(request, response) {
  const headers = { ...request.headers, host: server.host };
  delete headers.origin;
  const options = { method: request.method, headers };
  const upstream = requestUpstream(new URL(request.url, server), options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  upstream.on("error", () => response.writeHead(502).end());
  response.on("close", () => upstream.destroy());
  request.pipe(upstream);
}
