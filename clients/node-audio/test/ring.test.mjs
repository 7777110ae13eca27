// The reader alone, over a ring that JavaScript writes as native/MEMORY.md has it.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const require = createRequire(import.meta.url);
const { RingReader } = require('../dist/ring.js');
const { AudioReader } = require('../dist/shared.js');
const { bucketEndMs, bucketOf, ticksAt, ticksOf } = require('../dist/latency.js');
const { Control, MAGIC, QUEUE_OFFSET, RECORD_BYTES, State, VERSION } = require('../dist/layout.js');
const { LATENCY_BUCKETS, TALLY_BYTES, Tally, TallyWord } = require('../dist/tally.js');

/** The producer's side, by words. */
class Writer {
  position = 0;
  sequence = 0;
  estimated = 0;

  constructor({ slots, packetFrames = 4, channels = 1, sample = 1, firstHead = 0 }) {
    const entries = 2 ** Math.ceil(Math.log2(slots));
    const table = Math.ceil((QUEUE_OFFSET + entries * 4) / 64) * 64;
    const data = table + slots * RECORD_BYTES;
    this.memory = new SharedArrayBuffer(data + slots * 64);
    this.words = new Int32Array(this.memory);
    const control = [MAGIC, VERSION, slots, 64, 64, QUEUE_OFFSET, entries - 1, table, data];
    this.words.set([...control, 48_000, channels, sample, packetFrames]);
    this.words[Control.head] = this.words[Control.tail] = firstHead;
    Object.assign(this, { slots, table, data, mask: entries - 1, packetFrames });
  }

  /** Publishes a packet whose samples are its position; false: no slot is free. */
  publish({ frames = this.packetFrames, flags = 0, skip = 0, estimated = 0 } = {}) {
    const { words } = this;
    this.position += skip + estimated;
    this.estimated = (this.estimated + estimated) | 0;
    const record = (slot) => (this.table + slot * RECORD_BYTES) / 4;
    const slot = [...Array(this.slots).keys()].find((one) => Atomics.load(words, record(one)) === 0);
    if (slot === undefined) return false;
    const first = record(slot);
    new Int16Array(this.memory, this.data + slot * 64, frames).fill(this.position);
    words.set([frames, frames * 2, flags, this.sequence, 0, this.position, 0, 5_000, 1, 0, this.estimated], first + 1);
    this.position += frames;
    this.sequence += 1;
    Atomics.store(words, first, State.filled);
    const head = Atomics.load(words, Control.head);
    Atomics.store(words, QUEUE_OFFSET / 4 + (head & this.mask), slot);
    Atomics.store(words, Control.head, (head + 1) | 0);
    return true;
  }

  /** Takes the oldest back, as a producer does that drops it. */
  dropOldest() {
    const tail = Atomics.load(this.words, Control.tail);
    const slot = Atomics.load(this.words, 128 + (tail & this.mask));
    Atomics.store(this.words, 32, (tail + 1) | 0);
    Atomics.store(this.words, (this.table + slot * RECORD_BYTES) / 4, 0);
  }
}

function pair(options) {
  const writer = new Writer(options);
  const tally = new Float64Array(new SharedArrayBuffer(TALLY_BYTES));
  const reader = new RingReader(writer.memory, tally, { debug: false, copy: false });
  return { writer, tally, tallyWords: new Int32Array(tally.buffer), reader };
}

test('packets come in order, in place, and their slots go back', () => {
  const { writer, reader, tallyWords } = pair({ slots: 3 });
  for (let round = 0; round < 50; round += 1) {
    assert.ok(writer.publish());
    assert.ok(writer.publish());
    for (const sequence of [round * 2, round * 2 + 1]) {
      const packet = reader.take();
      assert.equal(packet.sequence, sequence);
      assert.equal(packet.position, sequence * 4);
      assert.deepEqual([...packet.samples], Array(4).fill(sequence * 4));
      assert.equal(packet.timeNs, 0x1_0000_0000 + 5_000);
      assert.equal(packet.droppedBefore, 0);
    }
    assert.equal(reader.take(), undefined);
    assert.equal(tallyWords[TallyWord.held], 0);
  }
  assert.equal(tallyWords[TallyWord.heldPeak], 1);
  assert.equal(reader.delivered, 100);
});

test('memory of another version, and memory that is no ring, are refused', () => {
  const { words, memory } = new Writer({ slots: 3 });
  const tally = new Float64Array(new SharedArrayBuffer(TALLY_BYTES));
  const read = (bytes) => () => new RingReader(bytes, tally, { debug: false, copy: false });
  words[Control.version] = 2;
  const message = `ring layout 2 is not supported; expected ${VERSION}: use one version of @steppe/audio on all threads`;
  assert.throws(read(memory), { code: 'ERR_UNSUPPORTED', message });
  words[Control.magic] = 0;
  assert.throws(read(memory), { code: 'ERR_INVALID_OPTION' });
  const shared = { memory, tally: tally.buffer, channelMap: ['mono'] };
  assert.throws(() => new AudioReader({ ...shared, steppeAudio: 1 }), { code: 'ERR_UNSUPPORTED', message: /shared message 1/ });
  assert.throws(() => new AudioReader(shared), { code: 'ERR_INVALID_OPTION' });
});

test('a packet tells the time of day by the offset of now, and how much it may be off', () => {
  const { writer, reader } = pair({ slots: 3 });
  const wide = new BigInt64Array(writer.memory);
  const set = (counter, ns) => Atomics.store(wide, 32 + counter, BigInt(ns));
  const [offset, wallError, timeError] = [20, 21, 23];
  assert.ok(writer.publish());
  const packet = reader.take();
  const timeMs = (0x1_0000_0000 + 5_000) / 1e6;
  set(offset, 1_764_000_000_000_000_000n);
  assert.ok(Math.abs(packet.wallTimeMs - (1_764_000_000_000 + timeMs)) < 1e-3);
  // The clock is set back to before 1970.
  set(offset, -3_600_000_000_000n);
  assert.ok(Math.abs(packet.wallTimeMs - (timeMs - 3_600_000)) < 1e-3);
  set(wallError, 500);
  set(timeError, 250_000);
  assert.equal(packet.timeErrorMs, 0.2505);
  assert.ok(writer.publish({ flags: 4 }));
  assert.equal(reader.take().timeErrorMs, 0.2505 + 4_000 / 48_000);
});

test('a packet that an overrun drops takes no estimate with it', () => {
  const { writer, reader, tally } = pair({ slots: 3 });
  const taken = () => {
    const { droppedBefore, droppedEstimated } = reader.take();
    return [droppedBefore, droppedEstimated, tally[Tally.droppedFrames], tally[Tally.estimatedFrames]];
  };
  writer.publish();
  assert.deepEqual(taken(), [0, false, 0, 0]);
  writer.publish({ estimated: 100 });
  writer.dropOldest();
  writer.publish({ skip: 5 });
  // What is lost later is another packet's.
  writer.publish({ estimated: 7 });
  assert.deepEqual(taken(), [109, true, 109, 100]);
  assert.deepEqual(taken(), [7, true, 116, 107]);
  writer.publish({ skip: 3 });
  assert.deepEqual(taken(), [3, false, 119, 107]);
  writer.estimated = 0x7fff_fffe;
  writer.publish();
  reader.take();
  writer.publish({ estimated: 4 });
  assert.deepEqual(taken().slice(0, 2), [4, true]);
});

test('packets are counted beyond 32 bits', () => {
  const { writer, reader, tallyWords } = pair({ slots: 3 });
  for (const [low, delivered] of [[0x7fff_ffff, 2 ** 31], [-1, 2 ** 32]]) {
    tallyWords[TallyWord.delivered] = low;
    writer.publish();
    reader.take();
    assert.equal(reader.delivered, delivered);
  }
});

test('of the wakes in a span of time the first tells its latency, and what is taken besides does not', () => {
  const { writer, reader, tallyWords } = pair({ slots: 3 });
  const noted = () => tallyWords.subarray(TallyWord.latency).reduce((sum, count) => sum + count, 0);
  const take = () => {
    writer.publish();
    reader.take();
    return noted();
  };
  assert.equal(take(), 0);
  reader.noteWake();
  assert.deepEqual([take(), take()], [1, 1]);
  // All packets of this writer have one time.
  reader.noteWake();
  assert.equal(take(), 1);
});

test('counters of the queue wrap', () => {
  for (const firstHead of [-3, 0x7fff_fffe]) {
    const { writer, reader } = pair({ slots: 3, firstHead });
    for (let sequence = 0; sequence < 10; sequence += 1) {
      assert.ok(writer.publish());
      assert.equal(reader.take().sequence, sequence);
      assert.equal(reader.take(), undefined);
    }
  }
});

test('frames that were dropped are told by the packet after them', () => {
  const { writer, reader, tally } = pair({ slots: 4 });
  for (let packets = 0; packets < 4; packets += 1) writer.publish();
  assert.equal(writer.publish(), false);
  writer.dropOldest();
  writer.dropOldest();
  assert.ok(writer.publish({ skip: 7 }));
  const dropped = [];
  for (let packet = reader.take(); packet; packet = reader.take()) {
    dropped.push([packet.droppedBefore, packet.discontinuity]);
  }
  assert.deepEqual(dropped, [[8, true], [0, false], [7, true]]);
  assert.equal(tally[Tally.droppedFrames], 15);
});

test('a packet that is held keeps its slot, however often it is retained', () => {
  const { writer, reader } = pair({ slots: 2 });
  writer.publish();
  const packet = reader.take().retain().retain();
  writer.publish();
  reader.take();
  reader.endLoan();
  assert.ok(writer.publish());
  assert.equal(writer.publish(), false);
  packet.release();
  assert.equal(writer.publish(), false);
  assert.equal(packet.position, 0);
  packet.release();
  assert.ok(writer.publish());
});

test('a short packet has short views', () => {
  const { writer, reader } = pair({ slots: 2 });
  writer.publish({ frames: 3, flags: 1 | 4 });
  const packet = reader.take();
  assert.equal(packet.samples.length, 3);
  assert.equal(packet.bytes.length, 6);
  assert.deepEqual([packet.silent, packet.timeEstimated, packet.discontinuity], [true, true, false]);
});

test('latencies lie in quarters of doublings', () => {
  let last = -1;
  for (const ticks of [...Array(4_096).keys(), ...Array.from({ length: 80 }, (_, at) => Math.floor(4_096 * 1.18 ** at)).filter((one) => one < 2 ** 28)]) {
    const bucket = bucketOf(ticks);
    assert.ok(bucket >= last, `${ticks}`);
    assert.ok(ticks < ticksOf(bucketEndMs(bucket)), `${ticks}`);
    if (bucket > 0) assert.ok(ticks >= ticksOf(bucketEndMs(bucket - 1)), `${ticks}`);
    last = bucket;
  }
  assert.equal(bucketOf(2 ** 31 - 1), LATENCY_BUCKETS - 1);
  const words = new Int32Array(2);
  new BigUint64Array(words.buffer)[0] = (3n << 42n) + 1_024n * 7n;
  assert.equal(ticksAt(words, 0), 7);
});

test('slots that a thread had taken when it ended are free again, and others are not touched', () => {
  const writer = new Writer({ slots: 8 });
  const tally = new Float64Array(new SharedArrayBuffer(TALLY_BYTES));
  const [own, other] = [1, 2].map(() => new RingReader(writer.memory, tally, { debug: false, copy: false }));
  for (let count = 0; count < 6; count += 1) assert.ok(writer.publish());
  const kept = own.takeHeld();
  other.takeHeld();
  // It ended when it had moved the tail.
  Atomics.add(writer.words, Control.tail, 1);
  const state = (slot) => Atomics.load(writer.words, (writer.table + slot * RECORD_BYTES) / 4);
  assert.deepEqual([0, 1, 2, 3].map(state), [1, 1, State.filled, State.filled]);
  own.reclaim();
  assert.deepEqual([0, 1, 2, 3].map(state), [1, State.free, State.free, State.filled]);
  assert.equal(new Int32Array(tally.buffer)[TallyWord.held], 1);
  assert.equal(own.take().position, 12);
  kept.release();
  assert.equal(state(0), State.free);
});
