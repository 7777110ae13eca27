// The time of day of packets.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { AudioCapture } from '@steppe/audio';

const here = fileURLToPath(new URL('.', import.meta.url));
const hasCompiler = process.platform === 'linux' && spawnSync('cc', ['--version']).status === 0;

/** What is to be added to the time of `hrtime` for the time of day, by JavaScript alone: both ends, in ms. */
function offsetOfNow() {
  const ends = [-Infinity, Infinity];
  // Date.now() is rounded down to a millisecond.
  for (let reading = 0; reading < 50; reading += 1) {
    const before = Number(process.hrtime.bigint()) / 1e6;
    const now = Date.now();
    const after = Number(process.hrtime.bigint()) / 1e6;
    ends[0] = Math.max(ends[0], now - after);
    ends[1] = Math.min(ends[1], now + 1 - before);
  }
  return ends;
}

test('a packet has the time of day, to a thousandth of a millisecond', async () => {
  for (const mode of ['zero-copy', 'copy']) {
    const capture = await AudioCapture.open({ source: { kind: 'synthetic', synthetic: { packets: 20 } }, mode });
    let packets = 0;
    for await (const { timeNs, wallTimeMs, timeErrorMs } of capture) {
      const [least, most] = offsetOfNow();
      const offset = wallTimeMs - timeNs / 1e6;
      assert.ok(offset > least - 0.01 && offset < most + 0.01, `${offset} is not between ${least} and ${most}`);
      assert.ok(timeErrorMs >= 0 && timeErrorMs < 50, `${timeErrorMs} ms`);
      packets += 1;
    }
    assert.equal(packets, 20);
    assert.equal(capture.stats().wallSteps, 0);
  }
});

/** Prints by how much the offset differs before and after the clock is set, in s, and the steps that were counted. */
const script = `
  import { writeFileSync } from 'node:fs';
  import { AudioCapture } from '@steppe/audio';
  const capture = await AudioCapture.open({ source: { kind: 'synthetic' } });
  const offsets = [];
  for await (const { timeNs, wallTimeMs, sequence } of capture) {
    offsets.push(wallTimeMs - timeNs / 1e6);
    if (offsets.length === 5) writeFileSync(process.env.CLOCK_STEP, '');
    if (offsets.length > 5 && Math.abs(offsets.at(-1) - offsets[0]) > 1_000) break;
  }
  console.log(Math.round((offsets.at(-1) - offsets[0]) / 1e3), capture.stats().wallSteps);
  await capture.close();
`;

test('a clock that is set is seen by the next packet', { skip: hasCompiler ? false : 'cc makes what is preloaded' }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-clock-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const library = join(folder, 'step.so');
  const built = spawnSync('cc', ['-shared', '-fPIC', '-o', library, join(here, 'clock-step.c')], { encoding: 'utf8' });
  assert.equal(built.status, 0, built.stderr);
  const env = { ...process.env, LD_PRELOAD: library, CLOCK_STEP: join(folder, 'set') };
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { cwd: here, env, encoding: 'utf8' });
  assert.equal(stdout, '3600 1\n', stderr);
});
