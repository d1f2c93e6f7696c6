/// <reference types="vitest/config" />
// How the client is built and served during development. The build must work under any path prefix and under a strict
// Content-Security-Policy: relative addresses, no inlined assets, no injected <style> elements.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const server = process.env["NOETL_SERVER"] ?? "http://127.0.0.1:8082";

/** The base of all addresses, which the server inserts into the page. */
function basePlugin(): Plugin {
  return {
    name: "noetl-base",
    apply: "serve",
    transformIndexHtml: () => [{ tag: "base", attrs: { href: "/" }, injectTo: "head-prepend" }],
  };
}

/** Adds the licenses of the fonts, which are no modules; those of modules are collected by Vite. */
function fontLicensePlugin(): Plugin {
  const fonts = ["inter", "jetbrains-mono"];
  const readLicense = (font: string) =>
    readFileSync(new URL(`node_modules/@fontsource-variable/${font}/LICENSE`, import.meta.url), "utf8");
  return {
    name: "noetl-font-licenses",
    apply: "build",
    generateBundle() {
      this.emitFile({ type: "asset", fileName: "licenses-fonts.txt", source: fonts.map(readLicense).join("\n") });
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [react(), basePlugin(), fontLicensePlugin()],
  resolve: {
    alias: {
      // Radix locks scrolling with this package, which adds a <style> element; ours uses adopted style sheets.
      "react-style-singleton": fileURLToPath(new URL("./src/lib/styleSingleton.ts", import.meta.url)),
    },
  },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1200,
    license: { fileName: "licenses.txt" },
  },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/openapi.json", "/docs", "/metrics"].map((path) => [
        path,
        {
          target: server,
          changeOrigin: true,
          // The server refuses requests of a foreign origin.
          configure: (proxy) => proxy.on("proxyReq", (request) => request.removeHeader("origin")),
        },
      ]),
    ),
  },
  test: { environment: "jsdom", include: ["src/**/*.test.ts"] },
});
