// Builds the native addon by cargo and puts it where the package looks for it. Arguments go to cargo.
import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const { triple } = createRequire(import.meta.url)('../dist/native.js');
const root = fileURLToPath(new URL('../../../', import.meta.url));
const args = ['build', '--locked', '--package', 'steppe-audio', '--message-format', 'json', ...process.argv.slice(2)];
const said = execFileSync('cargo', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 64 << 20 });
const artifacts = said.split('\n').filter(Boolean).map((line) => JSON.parse(line));
const built = artifacts.find(({ reason, target }) => reason === 'compiler-artifact' && target.name === 'steppe_audio');
const library = built?.filenames.find((name) => /\.(so|dylib|dll)$/.test(name));
if (library === undefined) throw new Error('cargo built no library');
copyFileSync(library, new URL(`../native/steppe-audio.${triple()}.node`, import.meta.url));
