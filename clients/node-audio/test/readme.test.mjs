// Each example of the README runs as it stands, in a folder of its own, and every example is type-checked.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The examples of a page, each with the heading above it. */
function examplesOf(page) {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(/## (.*)\n|```js\n([\s\S]*?)```/g)].reduce(
    ({ title, found }, [, heading, code]) =>
      heading === undefined ? { title, found: [...found, { title, code }] } : { title: heading, found },
    { title: 'Quick start', found: [] },
  ).found;
}

const examples = examplesOf('README.md');

/** A folder in which the package is installed. */
function workplace(t) {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-audio-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'node_modules', '@steppe'), { recursive: true });
  symlinkSync(root, join(folder, 'node_modules', '@steppe', 'audio'));
  symlinkSync(join(root, 'node_modules', '@types'), join(folder, 'node_modules', '@types'));
  return folder;
}

/** What each prints. */
const prints = {
  'Quick start': /^(512 \d+\n){20,40}$/,
  'Packets are on loan': /^1 0\n$/,
  Times: /^(\d{4}-\d\d-\d\dT[\d:.]+Z ± \d+\.\d{3} ms\n){3}$/,
  'Overruns and lost frames': /captured: 300,/,
  'In a Worker': /^0\.5\n$/,
  Recordings: /^001.wav 48000\n002.wav 48000\n003.wav 24000\n3 120000\n$/,
  'Two sources on one clock': /^24000 2 true\n$/,
  Channels: /^3 \[ 'front-left', 'front-right', 'front-center' \]\n$/,
  'One program': /^$/,
};

for (const { title, code } of examples) {
  test(`the example of '${title}' runs`, (t) => {
    const folder = workplace(t);
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

test('every example passes tsc --strict', (t) => {
  const folder = workplace(t);
  const pages = ['README.md', 'docs/stream.md', '../../docs/audio/README.md', '../../README.md'];
  const files = pages.flatMap((page, number) =>
    examplesOf(page)
      .filter(({ code }) => code.includes('@steppe/audio'))
      .map(({ code }, example) => {
        const name = `page-${number}-example-${example}.mts`;
        writeFileSync(join(folder, name), code);
        return name;
      }),
  );
  assert.ok(files.length >= examples.length + 2, `${files.length} examples`);
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({
    compilerOptions: { strict: true, noEmit: true, skipLibCheck: true, module: 'nodenext', target: 'es2022', lib: ['es2023', 'esnext.disposable'], types: ['node'] },
    files,
  }));
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', folder], { cwd: folder, encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});
