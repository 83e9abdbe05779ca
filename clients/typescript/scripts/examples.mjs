// Makes a program of every TypeScript block of a page, so that the tests can run what the page shows:
//   node scripts/examples.mjs PAGE.md
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const target = join(dirname(fileURLToPath(import.meta.url)), "..", "test", "generated");
const page = readFileSync(process.argv[2], "utf8");
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
[...page.matchAll(/^```ts\n(.*?)^```$/gms)].forEach(([, text], number) => {
  writeFileSync(join(target, `example-${number + 1}.ts`), text);
});
