// Registers the playbooks that `look` and `walk` need on a server (NOETL_SERVER), and starts a run of each.
import { readdirSync, readFileSync } from "node:fs";

const server = process.env.NOETL_SERVER ?? "http://127.0.0.1:8082";
const folder = new URL("playbooks/", import.meta.url);
const files = [
  ...readdirSync(folder).map((name) => new URL(name, folder)),
  ...["hello", "fan-out", "approvals"].map((name) => new URL(`../../examples/${name}.yaml`, import.meta.url)),
];

for (const file of files) {
  const { path } = await post("api/catalog/register", { content: readFileSync(file, "utf8") });
  const { execution_id: id } = await post("api/execute", { path });
  console.log(`${path} ${id}`);
}

async function post(path, body) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(new URL(path, `${server}/`), options);
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  return response.json();
}
