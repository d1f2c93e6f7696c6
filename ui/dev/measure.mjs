// Prints the size of the build, and fails if the first page loads too much JavaScript.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const limit = 350 * 1024;
const dist = new URL("../dist/", import.meta.url);
const html = readFileSync(new URL("index.html", dist), "utf8");
const files = readdirSync(new URL("assets/", dist)).filter((name) => /\.(js|css|woff2)$/.test(name));

let initial = 0;
for (const name of files.sort()) {
  const bytes = readFileSync(new URL(`assets/${name}`, dist));
  const size = name.endsWith(".woff2") ? bytes.length : gzipSync(bytes).length;
  const isInitial = html.includes(name);
  if (isInitial && name.endsWith(".js")) initial += size;
  console.log(`${(size / 1024).toFixed(1).padStart(8)} KiB  ${isInitial ? "initial" : "lazy   "}  ${name}`);
}
console.log(`${(initial / 1024).toFixed(1).padStart(8)} KiB  initial JavaScript, gzip (limit ${limit / 1024} KiB)`);
if (initial > limit) {
  console.error("the initial JavaScript is too large: move a library to a lazy chunk");
  process.exit(1);
}
