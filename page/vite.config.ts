import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../src/viewkeeper/server/page");
const left = new Set(["node_modules", "coverage", ".vite"]);

/** The path of a file of the page, with slashes. */
const named = (path: string): string => relative(here, path).split(sep).join("/");

/** All files that belong to the page, sorted by path: tests/unit/test_page_assets.py lists the same ones. */
function sources(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => !left.has(entry.name))
    .flatMap((entry) => (entry.isDirectory() ? sources(join(directory, entry.name)) : [join(directory, entry.name)]))
    .sort((a, b) => (named(a) < named(b) ? -1 : 1));
}

/** Writes the hash of the sources beside what was built from them, so that a test finds what is out of date. */
function hashOfSources(): Plugin {
  return {
    name: "hash-of-sources",
    apply: "build",
    closeBundle() {
      const hash = createHash("sha256");
      for (const path of sources(here)) {
        hash.update(named(path) + "\0");
        hash.update(readFileSync(path));
        hash.update("\0");
      }
      writeFileSync(join(out, "sources.sha256"), hash.digest("hex") + "\n");
    },
  };
}

/** Writes the licenses of everything that is bundled. */
function licenses(): Plugin {
  return {
    name: "licenses",
    apply: "build",
    generateBundle(_, bundle) {
      const packages = new Set<string>(["@fontsource-variable/inter", "@fontsource/ibm-plex-mono"]);
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const id of Object.keys(chunk.modules)) {
          const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id.split(sep).join("/"));
          if (found) packages.add(found[1]!);
        }
      }
      const parts = [...packages].sort().map((name) => {
        const directory = join(here, "node_modules", name);
        const { version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
        const file = readdirSync(directory).find((each) => /^licen[cs]e/i.test(each));
        const text = file && existsSync(join(directory, file)) ? readFileSync(join(directory, file), "utf8") : "";
        return `${name} ${version} (${license})\n\n${text.trim()}\n`;
      });
      this.emitFile({ type: "asset", fileName: "licenses.txt", source: parts.join("\n" + "-".repeat(80) + "\n\n") });
    },
  };
}

export default defineConfig({
  root: here,
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: { output: { entryFileNames: "assets/[name]-[hash].js", chunkFileNames: "assets/[name]-[hash].js", assetFileNames: "assets/[name]-[hash][extname]" } },
  },
  base: "./", // relative, so that a proxy may add a prefix
  plugins: [licenses(), hashOfSources()],
  server: { proxy: { "/api": { target: "http://127.0.0.1:8799", ws: true } } },
});
