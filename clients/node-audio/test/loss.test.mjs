// Frames that sound servers, their clients and their devices lose are frames that a capture tells: a table of it.
//
// `npm test` runs each kind of loss with one of the servers; `STEPPE_LONG=1` runs all of it. `STEPPE_LOSS_TABLE` names a file for the table.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { after, describe, test } from 'node:test';

import { AudioCapture } from '../dist/index.mjs';
import { CASES, CYCLE_FRAMES, run } from './loss-cases.mjs';
import { SERVERS } from './sound-server.mjs';
import { undisturbed } from './undisturbed.mjs';

const isLong = process.env.STEPPE_LONG === '1';
/** Servers side by side, and cases of each: machines of CI have two processors, which four cases keep too busy for 2 ms. */
const concurrency = isLong || process.env.CI ? 1 : 2;
/** Cases that `npm test` runs, with a server with which frames are lost where there is one. */
const SHORT = {
  flow: {
    PulseAudio: ['unload', 'move', 'idle source'],
    PipeWire: ['stop server', 'restart', 'overrun', 'blocked loop'],
  },
  before: { PulseAudio: ['restart'], PipeWire: [] },
};
/** A gap is told to 2 ms where nobody counted its frames. */
const GAP_MS = 2;
/** Numbers of a resampled probe say nothing, and packets of a resampler come in steps. */
const RESAMPLED_MS = 10;
/** A monitor has its frames before they are played, by a period or two of its output. */
const AHEAD_MS = 50;

const rows = [];

/**
 * What was lost: by the probe, unless its player was started anew, or late or early itself, as PipeWire's are, most often by
 * whole cycles; then by when packets came.
 */
function lostOf(serverName, caseName, phase, { byProbe, byTime, told, estimated, droppedCounted }) {
  if (caseName === 'blocked loop' && phase === 'before') return droppedCounted;
  const isAnew = caseName === 'restart' && serverName === 'PulseAudio';
  const isResampled = caseName === 'rate change' && phase === 'before';
  if (isAnew || isResampled) return byTime;
  if (serverName === 'PulseAudio') return byProbe;
  const isByCycles = estimated === 0 && told > byProbe && (told - byProbe) % CYCLE_FRAMES === 0;
  if (isByCycles) return told;
  return Math.abs(byTime - told) < Math.abs(byProbe - told) ? byTime : byProbe;
}

function check(serverName, caseName, phase, seen) {
  const lost = lostOf(serverName, caseName, phase, seen);
  const offMs = Math.abs(lost - seen.told) * seen.ms;
  const allowedMs = seen.estimated > 0 ? GAP_MS * seen.gaps.length : 0;
  const row = { serverName, caseName, phase, lost, ...seen, offMs };
  const byTimeMs = caseName === 'rate change' ? RESAMPLED_MS : GAP_MS;
  assert.ok(offMs <= (lost === seen.byTime ? Math.max(byTimeMs, allowedMs) : allowedMs), JSON.stringify(row));
  assert.equal(seen.unflagged, 0, JSON.stringify(row));
  assert.ok(seen.aheadMs < AHEAD_MS, JSON.stringify(row));
  const isLossy = phase === 'flow' && CASES[caseName].loses?.includes(serverName);
  if (isLossy) assert.ok(seen.told > 0, JSON.stringify(row));
  if (CASES[caseName].restores) assert.ok(seen.events.some(({ kind }) => kind === 'reconnected'), JSON.stringify(row));
  rows.push(row);
}

const judged = (serverName, caseName, phase) =>
  undisturbed(async () => check(serverName, caseName, phase, await run(serverName, caseName, { phase })));

// Most of a case is waiting: four run side by side, but in CI and for those that burn time on the processors.
describe('what is lost is told', { concurrency }, () => {
  for (const serverName of Object.keys(SERVERS)) {
    describe(serverName, () => {
      for (const phase of ['flow', 'before']) {
        for (const caseName of Object.keys(CASES)) {
          const isIncluded = isLong || SHORT[phase][serverName].includes(caseName);
          if (!isIncluded || (['load', 'idle source'].includes(caseName) && phase === 'before')) continue;
          const when = phase === 'flow' ? 'in flow' : 'before the first frame';
          test(`${caseName}, ${when}`, () => judged(serverName, caseName, phase));
        }
      }
    });
  }
});

test('a packet, the event and the figures tell an estimated gap with the same number', async () => {
  const server = new SERVERS.PulseAudio();
  await server.start();
  const capture = await AudioCapture.open({ source: { kind: 'loopback' } });
  const [gaps, told] = [[], []];
  capture.on('overrun', (overrun) => told.push(overrun));
  const restored = new Promise((resolve) => {
    capture.on('device', (change) => change.kind === 'restored' && resolve(change));
  });
  const begun = once(capture, 'packet');
  const over = new Promise((resolve) => {
    capture.on('packet', ({ droppedBefore, droppedEstimated, discontinuity }) => {
      if (droppedBefore === 0) return;
      gaps.push({ droppedBefore, droppedEstimated, discontinuity });
      resolve();
    });
  });
  await begun;
  await server.kill();
  await server.start();
  const { lostFrames } = await restored;
  await over;
  await once(capture, 'packet');
  const { droppedFrames, estimatedFrames } = capture.stats();
  await capture.close();
  await server.stop();
  assert.ok(lostFrames > 0);
  assert.deepEqual(gaps, [{ droppedBefore: lostFrames, droppedEstimated: true, discontinuity: true }]);
  assert.deepEqual(told, [{ frames: lostFrames, framesTotal: lostFrames, framesEstimated: lostFrames }]);
  assert.deepEqual([droppedFrames, estimatedFrames], [lostFrames, lostFrames]);
});

after(() => {
  const cells = rows.map(({ serverName, caseName, phase, lost, told, estimated, offMs }) => {
    const kind = told === 0 ? '–' : estimated > 0 ? `estimated, ${offMs.toFixed(2)} ms off` : 'exact';
    return `| ${serverName} | ${caseName} | ${phase === 'flow' ? 'in flow' : 'before'} | ${lost} | ${told} | ${kind} |`;
  });
  const head = ['| server | event | when | frames lost | frames told | |', '|---|---|---|--:|--:|---|'];
  const table = [...head, ...cells, ''].join('\n');
  console.log(table);
  if (process.env.STEPPE_LOSS_TABLE) writeFileSync(process.env.STEPPE_LOSS_TABLE, table);
});
