// How captures, their listeners, signals and readers end, whatever the order.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { getEventListeners, once } from 'node:events';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';

import { AudioCapture, AudioReader } from '@steppe/audio';
import { mute, open } from './captures.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));

/** A capture whose ring is full when it is first read. */
async function filled(options) {
  const capture = await open({ speed: 50 }, { ring: { slots: 64 }, ...options });
  while (capture.stats().slots.free > 0) await turn();
  return capture;
}

/** Runs a script in a process of its own, which ends by itself. */
function run(script) {
  const { stdout, stderr, status, signal } = spawnSync(process.execPath, ['-e', script], { cwd: here, encoding: 'utf8', timeout: 60_000 });
  assert.equal(signal, null, `it did not end: ${stdout}${stderr}`);
  assert.equal(status, 0, stderr);
  return stdout;
}

test('close in a listener: packets stay in order and valid, each listener gets all, and end comes once', async () => {
  const capture = await filled({ debug: true });
  const seen = [[], []];
  let ends = 0;
  capture.on('end', () => (ends += 1));
  for (const list of seen) {
    capture.on('packet', (packet) => {
      list.push(packet.sequence);
      capture.close();
      // Still on loan.
      assert.equal(packet.samples.length, packet.frames);
    });
  }
  await once(capture, 'end');
  await turn();
  assert.equal(ends, 1);
  assert.ok(seen[0].every((sequence, at) => at === 0 || sequence > seen[0][at - 1]), seen[0].join());
  assert.ok(seen[0].length >= 64, `${seen[0].length} packets`);
  assert.deepEqual(seen[1], seen[0]);
  assert.equal(capture.stats().slots.held, 0);
});

test('close in a listener does not use the stack, however many packets wait', async () => {
  const capture = await filled({ packetMs: 1, ring: { slots: 16_384 } });
  let packets = 0;
  capture.on('packet', () => {
    packets += 1;
    void capture.close();
  });
  await once(capture, 'end');
  assert.ok(packets >= 16_384, `${packets} packets`);
});

test('close in listeners of other events ends once too', async () => {
  const capture = await open({ speed: 50 }, { ring: { slots: 4 } });
  const told = [];
  capture.on('overrun', () => void capture.close());
  capture.on('end', () => {
    told.push('end');
    void capture.close();
  });
  capture.on('packet', () => {
    while (capture.stats().overrunFrames === 0);
  });
  await once(capture, 'end');
  await capture.close();
  await turn();
  assert.deepEqual(told, ['end']);
});

test('a promise of close resolves after the end of the capture, in a listener too', async () => {
  const capture = await filled();
  const closed = await new Promise((resolve) => {
    capture.once('packet', async () => {
      await capture.close();
      resolve(capture.closed);
    });
  });
  assert.equal(closed, true);
});

test('a signal that lives on keeps no capture', async () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  const { signal } = new AbortController();
  const captures = [];
  for (let count = 0; count < 5; count += 1) {
    let capture = await open({ packets: 2, pace: 'burst' }, { signal });
    captures.push(new WeakRef(capture));
    if (count % 2 === 0) await capture.close();
    else await once(capture, 'end');
    capture = undefined;
  }
  await assert.rejects(AudioCapture.open({ source: { kind: 'input', deviceId: 'none' }, signal }));
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  for (let attempt = 0; attempt < 50 && captures.some((one) => one.deref() !== undefined); attempt += 1) {
    await delay(10);
    gc();
  }
  assert.deepEqual(captures.map((one) => one.deref()), Array(5).fill(undefined));
});

test('a shared capture does not keep the process after unref', () => {
  const script = (order) => `
    const { AudioCapture } = require('@steppe/audio');
    AudioCapture.open({ source: { kind: 'synthetic' } }).then((capture) => {
      ${order};
      console.log('open');
    });`;
  assert.equal(run(script('capture.share(); capture.unref()')), 'open\n');
  assert.equal(run(script('capture.unref(); capture.share()')), 'open\n');
});

test('the end is told to a listener that comes later', async () => {
  const capture = await open({ packets: 3, pace: 'burst' });
  while (!capture.closed) await turn();
  await delay(5);
  const told = [];
  capture.on('packet', ({ sequence }) => told.push(sequence));
  capture.on('end', () => told.push('end'));
  await once(capture, 'end');
  assert.deepEqual(told, [0, 1, 2, 'end']);
});

test('the end is told to whoever awaits it after the end', async () => {
  const capture = await open({ packets: 3, pace: 'burst' });
  while (!capture.closed) await turn();
  await turn();
  await once(capture, 'end');
});

test('a failure is told to a listener that comes later, once', async () => {
  const capture = await open({ speed: 100 }, { overrun: 'error', ring: { slots: 4 } });
  while (!capture.closed) await turn();
  await turn();
  const [error] = await once(capture, 'end').then(() => [], (thrown) => [thrown]);
  assert.equal(error.code, 'ERR_OVERRUN');
  let again = 0;
  capture.on('error', () => (again += 1));
  await turn();
  await turn();
  assert.equal(again, 0);
});

const WORKER = `
  const { AudioReader } = require('@steppe/audio');
  const { workerData, parentPort } = require('node:worker_threads');
  const start = (reader) => {
    reader.read();
    parentPort.postMessage('read');
    for (;;) reader.read();
  };
  if (workerData) start(new AudioReader(workerData));
  else AudioReader.receive().then(start);`;

for (const [name, given] of [['a message', false], ['workerData', true]]) {
  test(`a Worker that is terminated while it reads gives the capture back (${name})`, async () => {
    const capture = await open({}, { ring: { slots: 16 } });
    const worker = new Worker(WORKER, { eval: true, ...(given ? { workerData: capture.share() } : {}) });
    if (!given) capture.share(worker);
    await once(worker, 'message');
    await worker.terminate();
    for (;;) {
      try {
        let packets = 0;
        for await (const packet of capture) {
          assert.ok(packet.frames > 0);
          packets += 1;
          if (packets === 20) break;
        }
        break;
      } catch (error) {
        assert.equal(error.code, 'ERR_BUSY');
        await delay(20);
      }
    }
    // The packet that the Worker had read last was on loan to it.
    assert.equal(capture.stats().slots.held, 0);
    await capture.close();
  });
}

test('a Worker that exits and never reads gives the capture back', async () => {
  const capture = await open({});
  const worker = new Worker('', { eval: true });
  capture.share(worker);
  await once(worker, 'exit');
  await once(capture, 'packet');
  await capture.close();
});

test('an AudioReader that is closed gives the capture back', async () => {
  const capture = await open({});
  const reader = new AudioReader(capture.share());
  assert.ok(reader.read().frames > 0);
  await delay(150);
  assert.throws(() => capture.on('packet', () => {}), { code: 'ERR_BUSY' });
  reader.close();
  assert.equal(reader.read(), undefined);
  assert.equal(reader.ended, true);
  for (;;) {
    try {
      capture.on('packet', () => {});
      break;
    } catch {
      await delay(20);
    }
  }
  await once(capture, 'packet');
  await capture.close();
});

test('a second reader is refused where it begins', async () => {
  const capture = await open({});
  const loop = capture[Symbol.asyncIterator]();
  await loop.next();
  assert.throws(() => capture.on('packet', () => {}), { code: 'ERR_BUSY' });
  assert.equal(capture.listenerCount('packet'), 0);
  await loop.return();
  await once(capture, 'packet');
  // The listener went with its packet.
  for await (const packet of capture) {
    assert.ok(packet.frames > 0);
    break;
  }
  await capture.close();
});

test('removeAllListeners leaves a capture that takes new listeners', async () => {
  const capture = await open({});
  capture.on('packet', () => {});
  capture.removeAllListeners();
  for await (const packet of capture) {
    assert.ok(packet.frames > 0);
    break;
  }
  await once(capture, 'packet');
  await capture.close();
});

test('device is that of the moved event, and its format that of the restored one', async () => {
  const capture = await open({});
  const before = capture.device.format;
  const moved = once(capture, 'device');
  const format = { ...capture.device.format, sampleRate: 44_100 };
  capture.onEvent({ kind: 'moved', device: 'other', format, delayFrames: 48 });
  const [{ kind, deviceId }] = await moved;
  assert.deepEqual([kind, deviceId], ['moved', 'other']);
  assert.deepEqual(capture.device, { id: 'other', format });
  assert.equal(capture.stats().resamplerDelayMs, 1);
  capture.onEvent({ kind: 'reconnected', lostFrames: 0, format: before });
  assert.deepEqual(capture.device, { id: 'other', format: before });
  await capture.close();
});

test('a stream that is destroyed while no sound comes lets the next reader begin', async () => {
  const capture = await mute();
  const streams = [
    () => capture.toReadable(),
    () => Readable.from(capture.batches()),
    () => Readable.from(capture),
  ];
  for (const create of streams) {
    const stream = create();
    stream.resume();
    await turn();
    assert.throws(() => capture.on('packet', () => {}), { code: 'ERR_BUSY' });
    stream.destroy();
    await once(stream, 'close');
  }
  const web = capture.toWeb().getReader();
  const pending = web.read();
  await turn();
  await web.cancel();
  assert.equal((await pending).done, true);
  const iterator = capture.batches();
  const next = iterator.next();
  await iterator.return();
  assert.equal((await next).done, true);
  capture.resume();
  await once(capture, 'packet');
  await capture.close();
});

test('close ends a batch that waits for more', async () => {
  const capture = await open({});
  const batches = capture.batches({ maxMs: 10_000 });
  const next = batches.next();
  while (capture.stats().slots.held === 0) await turn();
  await capture.close();
  const { value } = await next;
  assert.ok(value.length > 0);
  assert.equal((await batches.next()).done, true);
});
