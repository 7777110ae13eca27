// The modules of src/: which may import which.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('../src/', import.meta.url));
const text = (name) => readFileSync(join(source, `${name}.ts`), 'utf8');
const modules = readdirSync(source).map((name) => name.replace(/\.ts$/, ''));
const imports = new Map(modules.map((name) => [name, [...text(name).matchAll(/from '\.\/([^']+)'/g)].map(([, other]) => other)]));

/** The first circle of imports from a module on, types included. */
function circle(name, path = []) {
  if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
  for (const other of imports.get(name)) {
    const found = circle(other, [...path, name]);
    if (found !== undefined) return found;
  }
  return undefined;
}

test('no module imports itself by way of others', () => {
  for (const name of modules) assert.equal(circle(name), undefined);
});

test('the consumers of a capture stand on PacketReader and do not know AudioCapture', () => {
  for (const name of ['batches', 'streams', 'recording', 'stream-to']) {
    assert.ok(imports.get(name).includes('reader'), name);
    assert.ok(!imports.get(name).includes('capture'), name);
  }
});

test('index.ts has a line for each module', () => {
  const map = [...text('index').matchAll(/^ \* - ([a-z0-9-]+)\.ts: /gm)].map(([, name]) => name);
  assert.deepEqual(map.sort(), modules.toSorted());
});

test('documentation opens with its subject', () => {
  const riddle = /(?:\/\*\*|\/\/|^ \*) (?:What|Who|Whose|Whoever|Whether|How|Nobody)\b.*/gm;
  for (const name of modules) assert.deepEqual(text(name).match(riddle), null, name);
});
