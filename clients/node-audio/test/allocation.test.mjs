// What packets allocate, warm, as the bench measures it: in the long tier, since code is compiled by being run.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const skip = process.env.STEPPE_LONG ? false : 'a long test: STEPPE_LONG=1';
const bench = fileURLToPath(new URL('../bench/case.mjs', import.meta.url));

/** A case of the bench, of made up packets. */
function measured(mode, rate) {
  const args = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256', bench];
  return JSON.parse(execFileSync(process.execPath, [...args, mode, String(rate), '4'], { encoding: 'utf8' }));
}

for (const [rate, name] of [[0, 'in a burst'], [10_000, 'at 10,000 a second']]) {
  test(`a Worker allocates at most a byte of the heap for a packet ${name}`, { skip }, () => {
    const { heapBytesPerPacket, packets } = measured('worker', rate);
    assert.ok(packets > 20_000);
    assert.ok(heapBytesPerPacket <= 1, `${heapBytesPerPacket}`);
  });
}

test('a wake of the event loop allocates at most 60 bytes of the heap', { skip }, () => {
  const { heapBytesPerWake, packets } = measured('ring', 10_000);
  assert.ok(packets > 20_000);
  assert.ok(heapBytesPerWake <= 60, `${heapBytesPerWake}`);
});
