// Answers the API routes that a server does not have yet, computed from the routes that it has. Development only: it
// steps aside as soon as the server knows `/api/session`.
import { mockFacets, selectRuns } from "./mockRuns.mjs";
import { mockFailures, mockGraph, mockLogs } from "./mockRun.mjs";

export function createMock(server) {
  const read = async (path) => {
    const response = await fetch(new URL(path.replace(/^\//, ""), `${server}/`));
    if (!response.ok) throw Object.assign(new Error(`${path} returned ${response.status}`), { response });
    return response.json();
  };
  let isNeeded;
  const askServer = () =>
    fetch(new URL("api/session", `${server}/`)).then(
      (response) => response.status === 404,
      () => undefined,
    );

  return async function mock(request, response, next) {
    const url = new URL(request.url, "http://mock");
    const route = findRoute(request.method, url.pathname);
    if (!route) return next();
    isNeeded ??= await askServer();
    if (!isNeeded) return next();
    try {
      await route(request, response, url, read, server);
    } catch (error) {
      if (!error.response) throw error;
      response.writeHead(error.response.status, { "content-type": "application/problem+json" });
      response.end(await error.response.text());
    }
  };
}

const routes = [
  ["GET", /^\/api\/session$/, (_request, response) => sendJson(response, session())],
  ["POST", /^\/api\/session$/, signIn],
  ["DELETE", /^\/api\/session$/, (_request, response) => endSession(response)],
  ["GET", /^\/api\/executions$/, sendRuns],
  [
    "GET",
    /^\/api\/executions\/facets$/,
    async (_q, response, url, read) => sendJson(response, await mockFacets(url, read)),
  ],
  [
    "GET",
    /^\/api\/executions\/\d+\/graph$/,
    async (_q, response, url, read) => sendJson(response, await mockGraph(url, read)),
  ],
  [
    "GET",
    /^\/api\/executions\/\d+\/failures$/,
    async (_q, response, url, read) => sendJson(response, await mockFailures(url, read)),
  ],
  [
    "GET",
    /^\/api\/executions\/\d+\/logs$/,
    async (_q, response, url, read) => sendJson(response, await mockLogs(url, read)),
  ],
];

function findRoute(method, path) {
  return routes.find(([wanted, pattern]) => wanted === method && pattern.test(path))?.[2];
}

let isSignedIn = process.env.NOETL_MOCK_AUTH !== "required";

function session() {
  const auth = process.env.NOETL_MOCK_AUTH ?? "open";
  const role = isSignedIn ? (process.env.NOETL_MOCK_ROLE ?? "admin") : null;
  return { auth, role, name: auth === "open" ? null : role && "ada", version: "0.1.0", expires_at: null };
}

function signIn(request, response) {
  let text = "";
  request.on("data", (chunk) => (text += chunk));
  request.on("end", () => {
    if (!JSON.parse(text).token.startsWith("noetl_pat_")) {
      const problem = {
        type: "/docs#UNAUTHENTICATED",
        title: "Unauthorized",
        status: 401,
        code: "UNAUTHENTICATED",
      };
      return sendJson(
        response,
        { ...problem, detail: "unknown token", remedy: "create one: noetl token create NAME" },
        401,
      );
    }
    isSignedIn = true;
    sendJson(response, session());
  });
}

function endSession(response) {
  isSignedIn = false;
  response.writeHead(204).end();
}

async function sendRuns(_request, response, url, read) {
  sendJson(response, await selectRuns(url, read));
}

function sendJson(response, value, status = 200) {
  const type = status < 400 ? "application/json" : "application/problem+json";
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" });
  response.end(JSON.stringify(value));
}
