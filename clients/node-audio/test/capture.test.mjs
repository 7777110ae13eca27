// AudioCapture over synthetic sources: each way to read, what is counted, and how captures end.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { AudioCapture, AudioError, AudioReader, PRESETS } from '@steppe/audio';

const { Control, Counter, COUNTERS, Record } = createRequire(import.meta.url)('../dist/layout.js');
const here = fileURLToPath(new URL('.', import.meta.url));
const synthetic = (options) => ({ kind: 'synthetic', synthetic: { signal: 'probe', ...options } });
const burst = (packets, options) =>
  AudioCapture.open({ source: synthetic({ pace: 'burst', packets }), ...options });

/** Whether the samples tell the packet's frames. */
const isExact = ({ samples, position, channels }) =>
  samples.every((sample, at) => at % channels !== 0 || sample === ((position + at / channels) & 0x7fff));

test('events give every packet, in place, in objects that come back', async () => {
  const capture = await burst(2_000);
  const seen = { packets: 0, exact: 0, objects: new Set(), buffers: new Set() };
  capture.on('packet', (packet) => {
    assert.equal(packet.sequence, seen.packets);
    seen.packets += 1;
    seen.exact += isExact(packet);
    seen.objects.add(packet);
    seen.buffers.add(packet.bytes);
    assert.ok(packet.bytes.buffer instanceof SharedArrayBuffer);
  });
  await once(capture, 'end');
  const stats = capture.stats();
  assert.equal(seen.packets, 2_000);
  assert.equal(seen.exact, 2_000);
  assert.ok(seen.objects.size <= stats.slots.total);
  assert.equal(seen.buffers.size, seen.objects.size);
  assert.equal(stats.delivered, 2_000);
  assert.equal(stats.droppedFrames, 0);
  assert.equal(stats.reuse, 1);
  assert.equal(stats.copiesPerPacket, 1);
  assert.equal(stats.copies + stats.fallbackCopies, 0);
  assert.equal(stats.slots.free, stats.slots.total);
  assert.ok(stats.wakes < 2_000);
});

test('a loop gives each packet on loan until the next', async () => {
  const capture = await burst(100);
  let packets = 0;
  for await (const packet of capture) {
    assert.equal(packet.sequence, packets);
    assert.equal(capture.stats().slots.held, 1);
    packets += 1;
  }
  assert.equal(packets, 100);
  assert.equal(capture.stats().slots.held, 0);
});

test('what is retained stays, and is released once', async () => {
  const capture = await burst(40, { ring: { slots: 16 } });
  const kept = [];
  for await (const packet of capture) if (packet.sequence % 8 === 0) kept.push(packet.retain());
  assert.deepEqual(kept.map(({ sequence }) => sequence), [0, 8, 16, 24, 32]);
  assert.ok(kept.every(isExact));
  assert.equal(capture.stats().slots.held, 5);
  assert.equal(capture.stats().slots.heldPeak, 6);
  kept.forEach((packet) => packet[Symbol.dispose]());
  kept.forEach((packet) => packet.release());
  assert.equal(capture.stats().slots.held, 0);
});

test('batches have many packets and one promise', async () => {
  const capture = await burst(500, { ring: { slots: 64 } });
  let [packets, batches] = [0, 0];
  for await (const batch of capture.batches({ maxMs: 20, maxPackets: 32 })) {
    assert.ok(batch.length <= 32);
    for (const packet of batch) assert.equal(packet.sequence, packets++);
    batches += 1;
  }
  assert.equal(packets, 500);
  assert.ok(batches >= 16 && batches < 250, `${batches} batches`);
  assert.equal(capture.stats().slots.held, 0);
});

test('an overrun has the estimates of the packets that were read, and not those of the producer', async () => {
  const source = synthetic({ packets: 4, pace: 'burst' });
  const capture = await AudioCapture.open({ source, ring: { slots: 4 } });
  const { words } = capture.reader.ring.ring;
  while (Atomics.load(words, Control.head) < 4) await turn();
  const record = (slot) => words[Control.table] / 4 + slot * 16;
  // As if the source had lost 100 frames before the second packet and more after the last one.
  for (const slot of [1, 2, 3]) {
    words[record(slot) + Record.position] += 100;
    words[record(slot) + Record.estimated] = 100;
  }
  words[COUNTERS / 4 + Counter.frames * 2] += 100;
  words[COUNTERS / 4 + Counter.estimatedFrames * 2] = 5_000;
  const told = [];
  capture.on('overrun', (overrun) => told.push(overrun));
  capture.on('packet', () => {});
  await once(capture, 'end');
  assert.deepEqual(told, [{ frames: 100, framesTotal: 100, framesEstimated: 100 }]);
});

test('a capture tells when it began', async () => {
  const capture = await AudioCapture.open({ source: synthetic({ packets: 3 }) });
  const packets = [];
  capture.on('packet', ({ timeNs, wallTimeMs, position }) => packets.push({ timeNs, wallTimeMs, position }));
  await once(capture, 'end');
  const [{ timeNs, wallTimeMs, position }] = packets;
  assert.equal(position, 0);
  assert.equal(capture.startedAt.timeNs, timeNs);
  assert.ok(Math.abs(capture.startedAt.wallTimeMs - wallTimeMs) < 1);
});

test('frames that are missing after the last packet are told to each kind of reader', async () => {
  const readers = {
    listener: (capture) => capture.on('packet', () => {}) && once(capture, 'end'),
    loop: async (capture) => { for await (const _ of capture); },
    batches: async (capture) => { for await (const _ of capture.batches()); },
    worker: async (_capture, shared) => { for (const _ of new AudioReader(shared)); },
  };
  for (const [name, read] of Object.entries(readers)) {
    const source = synthetic({ packets: 20, speed: 100 });
    const capture = await AudioCapture.open({ source, ring: { slots: 4 }, overrun: 'drop-newest' });
    const { words } = capture.reader.ring.ring;
    // Before the end: what is shared later holds no process.
    const shared = name === 'worker' ? capture.share() : undefined;
    while (Atomics.load(words, Control.closed) === 0) await turn();
    const overrun = once(capture, 'overrun');
    const told = [];
    capture.on('overrun', (one) => told.push(one));
    await read(capture, shared);
    await overrun;
    const frames = 16 * capture.packetFrames;
    assert.deepEqual(told, [{ frames, framesTotal: frames, framesEstimated: 0 }], name);
    assert.equal(capture.stats().droppedFrames, frames);
    await capture.close();
  }
});

test('a listener that is slow loses frames, which overruns and packets tell', async () => {
  const source = synthetic({ packets: 400, speed: 100 });
  const capture = await AudioCapture.open({ source, ring: { slots: 8 } });
  const told = { overrun: 0, packets: 0, delivered: 0 };
  capture.on('overrun', ({ frames }) => (told.overrun += frames));
  capture.on('packet', (packet) => {
    told.packets += packet.droppedBefore;
    told.delivered += packet.frames;
    assert.equal(packet.discontinuity, packet.droppedBefore > 0);
    // Until the ring has overrun, which it may have before the first.
    while (capture.stats().droppedFrames === 0);
  });
  await once(capture, 'end');
  const { droppedFrames, capturedFrames } = capture.stats();
  assert.ok(told.overrun > 0);
  assert.equal(told.overrun, told.packets);
  assert.equal(told.packets, droppedFrames);
  assert.equal(told.delivered + droppedFrames, capturedFrames);
});

test('the policies keep the oldest, the newest, or end', async () => {
  const filled = async (overrun) => {
    const source = synthetic({ packets: 50, speed: 100 });
    const capture = await AudioCapture.open({ source, overrun, ring: { slots: 8 } });
    await once(capture, 'end');
    const sequences = [];
    for await (const packet of capture) sequences.push(packet.sequence);
    return sequences;
  };
  assert.deepEqual(await filled('drop-oldest'), [42, 43, 44, 45, 46, 47, 48, 49]);
  assert.deepEqual(await filled('drop-newest'), [0, 1, 2, 3, 4, 5, 6, 7]);
  await assert.rejects(filled('error'), { code: 'ERR_OVERRUN', name: 'AudioError' });
});

test('an error event tells what a listener would not see', async () => {
  const source = synthetic({ speed: 100 });
  const capture = await AudioCapture.open({ source, overrun: 'error', ring: { slots: 4 } });
  const [error] = await once(capture, 'error');
  assert.equal(error.code, 'ERR_OVERRUN');
});

test('copies have memory of their own, and are counted', async () => {
  const capture = await burst(20, { mode: 'copy' });
  const packets = [];
  for await (const packet of capture) packets.push(packet);
  assert.ok(packets.every(isExact));
  assert.ok(packets.every(({ bytes }) => bytes.buffer instanceof ArrayBuffer));
  assert.equal(capture.stats().copies, 20);
});

test('debug mode makes packets afresh, poisons slots and refuses stale use', async () => {
  const capture = await burst(40, { debug: true, ring: { slots: 8 } });
  const seen = [];
  let bytes;
  for await (const packet of capture) {
    bytes = packet.bytes;
    seen.push(packet);
  }
  assert.equal(new Set(seen).size, 40);
  assert.ok(bytes.every((byte) => byte === 0x7f));
  const stale = { code: 'ERR_PACKET_RELEASED' };
  for (const use of ['samples', 'bytes', 'sequence', 'timeNs', 'frames', 'silent', 'peak', 'rms']) {
    assert.throws(() => seen[0][use], stale, use);
  }
  for (const call of ['retain', 'release', 'copy']) assert.throws(() => seen[0][call](), stale, call);
  seen[0][Symbol.dispose]();
});

test('streams copy, which is counted', async () => {
  const readable = await burst(30);
  const chunks = await readable.toReadable().toArray();
  assert.equal(Buffer.concat(chunks).length, 30 * 960);
  assert.equal(readable.stats().fallbackCopies, 30);
  const web = await burst(30);
  const bytes = Buffer.from(await new Response(web.toWeb()).arrayBuffer());
  assert.deepEqual(bytes, Buffer.concat(chunks));
  assert.equal(web.stats().fallbackCopies, 30);
});

test('a capture has one reader at a time', async () => {
  const capture = await burst(5);
  const loop = capture[Symbol.asyncIterator]();
  await loop.next();
  await assert.rejects(capture[Symbol.asyncIterator]().next(), { code: 'ERR_BUSY' });
  await loop.return();
  let packets = 0;
  for await (const _packet of capture) packets += 1;
  assert.equal(packets, 4);
});

test('listeners may come late and go early', async () => {
  const capture = await burst(0, { ring: { slots: 4 } });
  const first = await new Promise((resolve) => capture.once('packet', ({ sequence }) => resolve(sequence)));
  assert.equal(first, 0);
  const next = await new Promise((resolve) => capture.once('packet', ({ sequence }) => resolve(sequence)));
  assert.ok(next >= 1);
  await capture.close();
});

test('whoever waits is woken, however many wait', async () => {
  const capture = await AudioCapture.open({ source: synthetic({}) });
  const reading = capture.reader.reading('a test');
  reading.begin();
  while (reading.next() !== undefined);
  assert.deepEqual(await Promise.all([reading.wait(), reading.wait()]), [true, true]);
  reading.end();
  await capture.close();
});

test('a listener that throws is an uncaught exception, and keeps no slot', () => {
  const script = `
    const { AudioCapture } = require('@steppe/audio');
    const synthetic = { packets: 3 };
    process.once('uncaughtException', ({ message }) => console.log(message));
    AudioCapture.open({ source: { kind: 'synthetic', synthetic } }).then((capture) => {
      let packets = 0;
      capture.on('end', () => console.log(packets, capture.stats().slots.held));
      capture.on('packet', () => {
        packets += 1;
        if (packets === 1) throw new Error('planted');
      });
    });`;
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', script], { cwd: here, encoding: 'utf8' });
  assert.equal(stdout, 'planted\n3 0\n', stderr);
});

test('pause leaves sound out, and says so', async () => {
  const capture = await AudioCapture.open({ source: synthetic({ speed: 10 }) });
  const loop = capture[Symbol.asyncIterator]();
  await loop.next();
  capture.pause();
  while (capture.stats().pausedFrames === 0) await new Promise((resolve) => setImmediate(resolve));
  capture.resume();
  let packet = (await loop.next()).value;
  while (!packet.discontinuity) packet = (await loop.next()).value;
  assert.equal(packet.droppedBefore, 0);
  await capture.close();
});

test('close ends a loop that waits, and an aborted signal closes', async () => {
  const ended = new AbortController();
  const capture = await AudioCapture.open({ source: synthetic({}), signal: ended.signal });
  const loop = capture[Symbol.asyncIterator]();
  await loop.next();
  ended.abort();
  let last = await loop.next();
  while (!last.done) last = await loop.next();
  assert.equal(capture.closed, true);
  await capture[Symbol.asyncDispose]();
  await assert.rejects(AudioCapture.open({ signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('level tells what was delivered last', async () => {
  const source = { kind: 'synthetic', synthetic: { signal: 'tone', packets: 100, pace: 'burst' } };
  const capture = await AudioCapture.open({ source });
  for await (const _packet of capture);
  const { peak, rms, peakDb, rmsDb } = capture.level();
  assert.ok(Math.abs(peak - 0.5) < 0.01 && Math.abs(rms - 0.5 / Math.SQRT2) < 0.02, `${peak} ${rms}`);
  assert.ok(Math.abs(peakDb + 6) < 0.2 && Math.abs(rmsDb + 9) < 0.5);
});

test('the gate and `skip` leave packets out, and count them', async () => {
  const read = async (options) => {
    const source = { kind: 'synthetic', synthetic: { signal: 'speech', pace: 'burst', packets: 400 } };
    const capture = await AudioCapture.open({ source, ...options });
    let [frames, begins] = [0, 0];
    for await (const packet of capture) {
      frames += packet.frames;
      begins += packet.voiceBegins;
    }
    return { frames, begins, stats: capture.stats() };
  };
  const gated = await read({ gate: { hangoverMs: 100, prerollMs: 0 } });
  assert.equal(gated.begins, 2);
  assert.equal(gated.frames + gated.stats.gatedFrames, 192_000);
  assert.ok(gated.frames >= 96_000 && gated.frames < 120_000, `${gated.frames}`);
  const skipped = await read({ silence: 'skip' });
  assert.equal(skipped.frames, 96_000);
  assert.equal(skipped.stats.silentFrames, 96_000);
});

test('presets give what they say, from a device that gives something else', async () => {
  for (const [preset, { format, packetMs }] of Object.entries(PRESETS)) {
    const source = {
      kind: 'synthetic',
      synthetic: { signal: 'tone', packets: 100, format: { sampleRate: 44_100, channels: 2, sample: 's16' } },
    };
    const capture = await AudioCapture.open({ preset, source });
    assert.deepEqual(capture.format, { ...format, channelMap: ['mono'] });
    assert.equal(capture.packetFrames, (format.sampleRate * packetMs) / 1e3);
    for await (const packet of capture) {
      assert.equal(packet.frames, capture.packetFrames);
      break;
    }
    const { resamplerDelayMs } = capture.stats();
    assert.ok(resamplerDelayMs > 0 && resamplerDelayMs < 50, `${preset}: ${resamplerDelayMs} ms`);
    await capture.close();
  }
});

test('two sources come side by side, or mixed', async () => {
  const tone = (frequencyHz) => ({ kind: 'synthetic', synthetic: { frequencyHz, packets: 50 } });
  for (const [combine, channels] of [['side-by-side', 2], ['mix', 1]]) {
    const capture = await AudioCapture.open({ source: [tone(440), tone(660)], combine });
    assert.equal(capture.format.channels, channels);
    for await (const packet of capture) {
      assert.equal(packet.samples.length, packet.frames * channels);
      break;
    }
    await capture.close();
  }
});

test('what can not be is refused with a code and what to do', async () => {
  const refused = (options, message) =>
    assert.rejects(AudioCapture.open({ source: synthetic({}), ...options }), (error) => {
      assert.ok(error instanceof AudioError);
      assert.equal(error.code, 'ERR_INVALID_OPTION');
      assert.match(error.message, message);
      return true;
    });
  await refused({ preset: 'radio' }, /preset is 'radio'; expected one of openai-realtime/);
  await refused({ packetMS: 10 }, /unknown option 'packetMS'; did you mean 'packetMs'\?/);
  await refused({ volume: 10 }, /unknown option 'volume'; expected one of preset, source/);
  await refused({ packetMs: 0.3 }, /packetMs is 0.3; expected 1 to 1000/);
  await refused({ packetMs: NaN }, /packetMs is NaN/);
  await refused({ packetMs: 1.01 }, /not a whole number/);
  await refused({ format: { sample: 'u8' } }, /format.sample is 'u8'; expected one of s16, f32, mulaw/);
  await refused({ format: { channels: 0 } }, /format.channels is 0; expected a whole number from 1 to 32/);
  await refused({ format: { sampleRate: '48000' } }, /format.sampleRate is '48000'/);
  await refused({ format: { rate: 48_000 } }, /unknown option 'format.rate'; expected one of sampleRate, channels, sample/);
  await refused({ format: 's16' }, /format is 's16'; expected an object/);
  await refused({ ring: { slots: 1 } }, /slots is 1/);
  await refused({ ring: { slot: 64 } }, /unknown option 'ring.slot'; did you mean 'slots'\?/);
  await refused({ ring: { slotBytes: 10 } }, /ring.slotBytes is 10; a packet has 960 bytes/);
  await refused({ mode: 'fast' }, /mode is 'fast'/);
  await refused({ debug: 1 }, /debug is 1; expected true or false/);
  await refused({ signal: {} }, /signal is a object|signal is an object/);
  await refused({ gate: { hangover: 100 } }, /unknown option 'gate.hangover'; did you mean 'hangoverMs'\?/);
  await refused({ gate: { thresholdDb: 3 } }, /gate.thresholdDb is 3; expected -90 to 0/);
  await refused({ gate: null }, /gate is null; expected an object/);
  await refused({ source: { kind: 'radio' } }, /source.kind is 'radio'/);
  await refused({ source: { deviceId: 'x' } }, /source.kind is undefined; expected one of input/);
  await refused({ source: { kind: 'input', device: 'x' } }, /unknown option 'source.device'; did you mean 'deviceId'\?/);
  await refused({ source: synthetic({ packtes: 1 }) }, /unknown option 'source.synthetic.packtes'; did you mean 'packets'\?/);
  await refused({ source: synthetic({ format: { chanels: 1 } }) }, /unknown option 'source.synthetic.format.chanels'; did you mean 'channels'\?/);
  await refused({ source: synthetic({ driftPpm: 1e5 }) }, /source.synthetic.driftPpm is 100000; expected -10000 to 10000/);
  await refused({ source: [{ kind: 'input' }, { kind: 'loopback', pids: 1 }] }, /unknown option 'source\[1\].pids'; did you mean 'pid'\?/);
  await refused({ source: [{ kind: 'input' }] }, /source has 1 sources; expected one source or an array of two/);
});

test('options that are undefined are as if they were left out', async () => {
  const options = { preset: undefined, ring: undefined, gate: undefined, format: { sampleRate: undefined, channels: 2 } };
  const capture = await burst(1, options);
  const { sampleRate, channels, sample } = capture.format;
  assert.deepEqual({ sampleRate, channels, sample }, { sampleRate: 48_000, channels: 2, sample: 's16' });
  await capture.close();
  await assert.rejects(AudioCapture.open(null), { code: 'ERR_INVALID_OPTION' });
});

test('options of batches and readers are checked too', async () => {
  const capture = await burst(5);
  const refused = (options, message) => assert.throws(() => capture.batches(options), { code: 'ERR_INVALID_OPTION', message });
  refused({ maxMS: 5 }, /unknown option 'maxMS'; did you mean 'maxMs'\?/);
  refused({ maxMs: 0 }, /maxMs is 0; expected 1 to 10000/);
  refused({ maxPackets: 10_000 }, /maxPackets is 10000; the ring has 200 slots/);
  await capture.close();
});
