// Renders the API document: one block per operation, expanded on demand, filtered by the search field.
"use strict";

const place = document.getElementById("operations");
const find = document.getElementById("find");

function element(name, text, className) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Resolves references, so that readers see the fields instead of type names; a recursive type is named.
function resolve(schema, all, seen) {
  if (!schema || typeof schema !== "object") return schema;
  if (Array.isArray(schema)) return schema.map((part) => resolve(part, all, seen));
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    if (seen.includes(name)) return name;
    return resolve(all[name], all, seen.concat(name));
  }
  const out = {};
  for (const [key, value] of Object.entries(schema)) out[key] = resolve(value, all, seen);
  return out;
}

function shape(content, all) {
  const first = content && Object.values(content)[0];
  return first && first.schema ? JSON.stringify(resolve(first.schema, all, []), null, 2) : null;
}

function block(path, method, operation, all) {
  const details = element("details");
  details.dataset.words = [path, method, operation.summary, operation.description].join(" ").toLowerCase();
  const summary = element("summary");
  summary.append(element("span", method.toUpperCase(), "method"), element("code", path));
  summary.append(element("span", operation["x-role"] || "no token", "role"));
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector(".body")) return;
    const body = element("div", null, "body");
    body.append(element("p", [operation.summary, operation.description].filter(Boolean).join(" ")));
    for (const parameter of operation.parameters || []) {
      const line = element("div");
      line.append(element("code", parameter.name), " (" + parameter.in + ") " + (parameter.description || ""));
      body.append(line);
    }
    const sent = operation.requestBody && shape(operation.requestBody.content, all);
    if (sent) body.append(element("h3", "Body"), element("pre", sent));
    const ok = Object.entries(operation.responses || {}).filter(([status]) => status.startsWith("2"));
    for (const [status, response] of ok) {
      body.append(element("h3", status + " " + (response.description || "")));
      const got = shape(response.content, all);
      if (got) body.append(element("pre", got));
    }
    details.append(body);
  });
  return details;
}

function draw(api) {
  const all = (api.components && api.components.schemas) || {};
  const byTag = new Map((api.tags || []).map((tag) => [tag.name, { text: tag.description, blocks: [] }]));
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = byTag.get((operation.tags || ["system"])[0]);
      if (tag) tag.blocks.push(block(path, method, operation, all));
    }
  }
  place.textContent = "";
  for (const tag of byTag.values()) {
    const section = element("section");
    section.append(element("h2", tag.text), ...tag.blocks);
    place.append(section);
  }
}

find.addEventListener("input", () => {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const details of place.querySelectorAll("details")) {
    details.hidden = !words.every((word) => details.dataset.words.includes(word));
  }
});

fetch("openapi.json")
  .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error("the server returned status " + answer.status))))
  .then(draw)
  .catch((error) => {
    place.textContent = "Cannot load the API document: " + error.message;
  });
