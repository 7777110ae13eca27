// The addon alone: the memory's layout as MEMORY.md has it, with no wrapper above it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

import { numberOf } from './pulse-server.mjs';
import { CLOSED, DOORBELL, EVENTS, HEAD, Reader, addon, defaults, open } from './ring-reader.mjs';

/** Captures until it ends, and gives each packet to `each`. */
function drained(options, each) {
  return new Promise((resolve) => {
    const { native, reader } = open(options, () => {
      Atomics.store(reader.words, DOORBELL, 0);
      for (let packet = reader.take(); packet; packet = reader.take()) {
        each(packet, reader);
        reader.release(packet);
      }
      if (Atomics.load(reader.words, CLOSED) === 0) return;
      const events = native.events();
      native.close();
      resolve({ reader, events });
    });
    native.start();
  });
}

/** Whether each frame of the packet tells its position. */
function isExact({ position, frames, bytes }) {
  const samples = new Uint16Array(bytes.buffer, bytes.byteOffset, frames * 2);
  for (let frame = 0; frame < frames; frame += 1) {
    if (numberOf(samples, frame) !== position + frame) return false;
  }
  return true;
}

if (isMainThread) {
  test('a burst arrives whole, in order, in slots that come back', async () => {
    const source = { kind: 'synthetic', signal: 'probe', pace: 'burst', packets: 5_000 };
    let [next, packets, exact] = [0, 0, 0];
    const { reader, events } = await drained({ sources: [source] }, (packet) => {
      assert.equal(packet.position, next);
      assert.equal(packet.sequence, packets);
      next += packet.frames;
      packets += 1;
      exact += isExact(packet);
    });
    assert.equal(next, 480 * 5_000);
    assert.equal(exact, packets);
    assert.equal(reader.counter('misses'), 0);
    assert.equal(reader.counter('hits'), packets);
    assert.equal(reader.counter('copiedFrames'), next);
    assert.ok(reader.counter('wakes') <= packets, `${reader.counter('wakes')} wakes`);
    assert.deepEqual(events.map(({ kind }) => kind), ['open', 'ended']);
  });

  test('frames that a blocked event loop drops are told by positions', async () => {
    const source = { kind: 'synthetic', signal: 'probe', speed: 100, packets: 1_000 };
    let [next, dropped, isFirst] = [0, 0, true];
    const { reader } = await drained({ sources: [source] }, (packet, current) => {
      const { words } = current;
      assert.ok(isExact(packet));
      dropped += packet.position - next;
      next = packet.position + packet.frames;
      if (!isFirst) return;
      isFirst = false;
      // The event loop is blocked until the ring has overrun.
      const [head, wakes] = [Atomics.load(words, HEAD), current.counter('wakes')];
      while (Atomics.load(words, HEAD) - head < 100) Atomics.wait(words, CLOSED, 0, 1);
      // However many packets come, it is called once more.
      assert.ok(current.counter('wakes') - wakes <= 1);
    });
    assert.ok(dropped > 0);
    assert.equal(dropped + (reader.counter('frames') - next), reader.counter('droppedFrames'));
    assert.equal(reader.counter('frames'), 480_000);
  });

  test('a Worker reads without an event loop, and exits while the capture goes on', async () => {
    const { native, reader } = open({}, () => Atomics.store(reader.words, DOORBELL, 0));
    native.start();
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: reader.memory });
    const taken = await new Promise((resolve) => worker.once('message', resolve));
    assert.deepEqual(taken, { packets: 5, exact: 5 });
    await worker.terminate();
    native.close();
    assert.equal(Atomics.load(reader.words, CLOSED), 1);
  });

  test('a Worker that is terminated takes its capture along', async () => {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: 'capture' });
    await new Promise((resolve) => worker.once('message', resolve));
    await worker.terminate();
  });

  test('what can not be is refused with a code', () => {
    const refused = (options, code) =>
      assert.throws(() => open(options, () => {}), (error) => error.code === code);
    refused({ sampleRate: 1 }, 'ERR_INVALID_OPTION');
    refused({ packetFrames: 481 }, 'ERR_INVALID_OPTION');
    refused({ overrun: 'block' }, 'ERR_INVALID_OPTION');
    refused({ sources: [{ kind: 'radio' }] }, 'ERR_INVALID_OPTION');
    refused({ sources: [] }, 'ERR_INVALID_OPTION');
    assert.throws(() => addon.layout(1, 64), (error) => error.code === 'ERR_INVALID_OPTION');
    const small = new Uint8Array(new SharedArrayBuffer(64));
    assert.throws(() => new addon.Native(defaults, small, () => {}), /memory has 64 bytes/);
  });

  test('the policy `error` ends a capture with ERR_OVERRUN', async () => {
    const { reader, events } = await new Promise((resolve) => {
      const { native, reader } = open({ overrun: 'error' }, () => {
        Atomics.store(reader.words, DOORBELL, 0);
        if (Atomics.load(reader.words, CLOSED) === 0) return;
        resolve({ reader, events: native.events() });
        native.close();
      });
      native.start();
    });
    assert.equal(Atomics.load(reader.words, CLOSED), 2);
    assert.equal(Atomics.load(reader.words, EVENTS), 1);
    assert.equal(events.at(-1).code, 'ERR_OVERRUN');
    assert.match(events.at(-1).message, /16 slots/);
  });
} else if (workerData === 'capture') {
  const { native, reader } = open({}, () => {
    Atomics.store(reader.words, DOORBELL, 0);
    parentPort.postMessage('captured');
  });
  native.start();
} else {
  const reader = new Reader(workerData);
  const waiter = new addon.Waiter(new Uint8Array(workerData));
  let [packets, exact, seen] = [0, 0, 0];
  while (packets < 5) {
    const packet = reader.take();
    if (packet === undefined) {
      seen = waiter.wait(seen, 100);
      continue;
    }
    packets += 1;
    exact += isExact(packet);
    reader.release(packet);
  }
  parentPort.postMessage({ packets, exact });
  for (;;) seen = waiter.wait(seen, 100);
}
