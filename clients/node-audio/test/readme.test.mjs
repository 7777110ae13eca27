// Each example of the README runs as it stands, in a folder of its own.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const examples = [...readme.matchAll(/## (.*)\n|```js\n([\s\S]*?)```/g)].reduce(
  ({ title, found }, [, heading, code]) =>
    heading === undefined ? { title, found: [...found, { title, code }] } : { title: heading, found },
  { title: 'Quick start', found: [] },
).found;

/** What each prints. */
const prints = {
  'Quick start': /^(512 \d+\n){20,40}$/,
  'Packets are on loan': /^1 0\n$/,
  'Overruns and lost frames': /captured: 300,/,
  'In a Worker': /^0\.5\n$/,
  'Two sources on one clock': /^24000 2 true\n$/,
};

for (const { title, code } of examples) {
  test(`the example of '${title}' runs`, (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'steppe-audio-'));
    t.after(() => rmSync(folder, { recursive: true }));
    mkdirSync(join(folder, 'node_modules', '@steppe'), { recursive: true });
    symlinkSync(root, join(folder, 'node_modules', '@steppe', 'audio'));
    writeFileSync(join(folder, 'example.mjs'), code);
    const { stdout, stderr, status } = spawnSync(process.execPath, ['example.mjs'], { cwd: folder, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    assert.match(stdout, prints[title]);
    if (code.includes('sound.pcm')) assert.equal(readFileSync(join(folder, 'sound.pcm')).length, 96_000);
    if (code.includes('meeting.wav')) assert.ok(existsSync(join(folder, 'meeting.wav')));
  });
}

test('every example is run', () => {
  assert.deepEqual(examples.map(({ title }) => title), Object.keys(prints));
});
