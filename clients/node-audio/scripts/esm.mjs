// Writes the ES module beside the CommonJS build: it names what that exports, so that both have one
// instance of everything.
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { writeFileSync } from 'node:fs';

const dist = fileURLToPath(new URL('../dist/', import.meta.url));
const names = Object.keys(createRequire(import.meta.url)(`${dist}index.js`)).sort();
const lines = [
  "import all from './index.js';",
  names.length > 0 ? `export const { ${names.join(', ')} } = all;` : 'void all;',
];
writeFileSync(`${dist}index.mjs`, `${lines.join('\n')}\n`);
writeFileSync(`${dist}index.d.mts`, "export * from './index.js';\n");
