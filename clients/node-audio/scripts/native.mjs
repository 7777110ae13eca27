// Builds the native addon by cargo and puts it where the package looks for it. Arguments go to cargo. `--for PLATFORM`, first,
// builds what is published for Linux by cargo-zigbuild: with glibc it runs from 2.28 on.
import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

/** Targets by what `triple()` calls them. A shared library of musl links its libc dynamically. */
const TARGETS = {
  'linux-x64-gnu': { target: 'x86_64-unknown-linux-gnu.2.28' },
  'linux-arm64-gnu': { target: 'aarch64-unknown-linux-gnu.2.28' },
  'linux-x64-musl': { target: 'x86_64-unknown-linux-musl', flags: '-C target-feature=-crt-static' },
};

const { triple } = createRequire(import.meta.url)('../dist/native.js');
const root = fileURLToPath(new URL('../../../', import.meta.url));
const [first, platform, ...others] = process.argv.slice(2);
const other = first === '--for' ? TARGETS[platform] : undefined;
if (first === '--for' && other === undefined) throw new Error(`--for takes ${Object.keys(TARGETS).join(', ')}`);
const command = other ? ['zigbuild', '--target', other.target, ...others] : ['build', ...process.argv.slice(2)];
const args = [...command, '--locked', '--package', 'steppe-audio', '--message-format', 'json'];
const env = other?.flags ? { ...process.env, RUSTFLAGS: other.flags } : process.env;
const said = execFileSync('cargo', args, { cwd: root, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 64 << 20 });
const artifacts = said.split('\n').filter(Boolean).map((line) => JSON.parse(line));
const built = artifacts.find(({ reason, target }) => reason === 'compiler-artifact' && target.name === 'steppe_audio');
const library = built?.filenames.find((name) => /\.(so|dylib|dll)$/.test(name));
if (library === undefined) throw new Error('cargo built no library');
copyFileSync(library, new URL(`../native/steppe-audio.${other ? platform : triple()}.node`, import.meta.url));
