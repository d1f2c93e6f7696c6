// Calls of the HTTP API that scenarios use to prepare and to compare.
import { readFileSync } from "node:fs";

/** Requests JSON; fails with the problem that the server reports. */
export async function request(url, path, { method = "GET", body, token } = {}) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (token) headers.authorization = `Bearer ${token}`;
  const response = await fetch(new URL(path, url), { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

/** Starts a run of a playbook; returns its ID. */
export async function start(url, playbook, payload = {}, token) {
  const body = { playbook, payload };
  const started = await request(url, "api/execute", { method: "POST", body, token });
  return started.execution_id;
}

/** Waits until a run has this status. */
export async function waitForStatus(url, id, status, token) {
  for (;;) {
    const run = await request(url, `api/executions/${id}/status`, { token });
    if (run.status === status) return run;
    if (["COMPLETED", "FAILED", "CANCELLED"].includes(run.status)) {
      throw new Error(`run ${id} is ${run.status} instead of ${status}: ${run.error}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Reads a playbook from `playbooks/`. */
export function readPlaybook(name) {
  return readFileSync(new URL(`playbooks/${name}.yaml`, import.meta.url), "utf8");
}
