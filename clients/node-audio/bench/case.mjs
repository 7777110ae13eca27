// One case of the benchmark, in a process of its own: `node --expose-gc --min-semi-space-size=256
// --max-semi-space-size=256 case.mjs MODE PACKETS_A_SECOND SECONDS`. 100 packets a second are what a sound server plays
// (PULSE_SERVER), others are made up; 0: as many as slots are free for. STEPPE_AUDIO_PACKAGE names the folder of another build of
// the package.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { HeapMeter } from '../dist/heap-meter.js';
import { numberOf } from '../test/pulse-server.mjs';

const { STEPPE_AUDIO_PACKAGE: folder } = process.env;
const { AudioCapture, AudioReader } = await import(folder ? pathToFileURL(join(folder, 'dist/index.mjs')).href : '@steppe/audio');

const PACKET_BYTES = 3_840;
const DEVICE_RATE = 100;

/** Packets from one reading of the heap to the next. */
const span = (rate) => (rate === 0 ? 4_096 : Math.max(50, rate / 4));

/** Memory that comes back when the garbage collector finds that nobody has it: a pool of 100. */
class CollectedPool {
  free = Array.from({ length: 100 }, () => new ArrayBuffer(PACKET_BYTES));
  hits = 0;
  misses = 0;
  registry = new FinalizationRegistry((memory) => this.free.push(memory));

  give(packet) {
    const memory = this.free.pop();
    if (memory === undefined) this.misses += 1;
    else this.hits += 1;
    const buffer = Buffer.from(memory ?? new ArrayBuffer(PACKET_BYTES));
    packet.bytes.copy(buffer);
    // The buffer's death gives its memory back; memory that was made for a miss is let go.
    if (memory !== undefined) this.registry.register(buffer, memory);
    return buffer;
  }
}

/** What a thread holds and allocates from `begin` to `end`. */
class Meter {
  heap = new HeapMeter();
  packets = 0;

  constructor(rate, wakes) {
    Object.assign(this, { span: span(rate), wakes });
  }

  async begin() {
    globalThis.gc();
    const used = process.memoryUsage().heapUsed;
    await this.heap.begin();
    Object.assign(this, { packets: 0, used, beganMs: performance.now(), beganCpu: process.cpuUsage() });
    this.heap.read(0, this.wakes?.());
  }

  count() {
    this.packets += 1;
    if (this.packets % this.span === 0) this.heap.read(this.packets, this.wakes?.());
  }

  async end() {
    const { packets } = this;
    const elapsed = (performance.now() - this.beganMs) / 1e3;
    // Of all threads of the process.
    const { user, system } = process.cpuUsage(this.beganCpu);
    const { perPacket, perWake, collections, collectionMs } = await this.heap.end();
    globalThis.gc();
    const { heapUsed, external, arrayBuffers } = process.memoryUsage();
    return {
      packets,
      packetsPerSecond: packets / elapsed,
      cpuUsPerPacket: (user + system) / packets,
      heapBytesPerPacket: perPacket,
      heapBytesPerWake: perWake,
      retainedKb: (heapUsed - this.used) / 1024,
      externalMb: (external + arrayBuffers) / 1048576,
      collections,
      collectionMs,
    };
  }
}

/** Counts frames of the probe that never came: samples as floats, of which two tell a frame's number. */
class Losses {
  last = 0;
  frames = 0;

  see(samples) {
    const pair = new Float64Array(2);
    for (let at = 0; at < samples.length; at += 2) {
      pair[0] = Math.round(samples[at] * 0x8000);
      pair[1] = Math.round(samples[at + 1] * 0x8000);
      const number = numberOf(pair, 0);
      if (number === 0) continue;
      if (this.last > 0) this.frames += number - this.last - 1;
      this.last = number;
    }
  }
}

function open(mode, rate) {
  const synthetic = rate === 0 ? { pace: 'burst' } : { speed: rate / 100 };
  return AudioCapture.open({
    source: rate === DEVICE_RATE ? { kind: 'loopback' } : { kind: 'synthetic', synthetic },
    format: { channels: 2, sample: 'f32' },
    packetMs: 10,
    ring: { slots: 2_048 },
    mode: mode === 'copy' ? 'copy' : 'zero-copy',
  });
}

async function main() {
  const [mode, rate, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
  const read = { worker: byWorker, decibri: byDecibri }[mode] ?? byEvents;
  console.log(JSON.stringify({ mode, rate, ...(await read({ mode, rate, seconds })) }));
  process.exit();
}

/** What a capture tells of itself. */
function told(capture) {
  const { reuse, copiesPerPacket, droppedFrames } = capture.stats();
  return { reuse, copiesPerPacket, droppedFrames };
}

async function byEvents({ mode, rate, seconds }) {
  // Code is compiled before it is measured: many wakes, then many packets.
  for (const warm of [20_000, 0]) {
    const capture = await open(mode, warm);
    await measured(capture, { mode, rate: warm, seconds: 2 });
    await capture.close();
  }
  const capture = await open(mode, rate);
  const result = await measured(capture, { mode, rate, seconds });
  const lost = rate === DEVICE_RATE ? await lostOf(capture, seconds) : undefined;
  const { droppedFrames } = capture.stats();
  await capture.close();
  return { ...result, lost, droppedFrames };
}

async function measured(capture, { mode, rate, seconds }) {
  const meter = new Meter(rate, () => capture.reader.ring.counter('wakes'));
  const pool = new CollectedPool();
  let kept;
  const listener = (packet) => {
    meter.count();
    if (mode === 'collected pool') kept = pool.give(packet);
  };
  capture.on('packet', listener);
  // A server works in larger blocks at first.
  await delay(rate === DEVICE_RATE ? 1_000 : 200);
  await meter.begin();
  await delay(seconds * 1e3);
  const result = await meter.end();
  void kept;
  capture.off('packet', listener);
  if (mode !== 'collected pool') return { ...told(capture), ...result };
  return { ...told(capture), ...result, reuse: pool.hits / (pool.hits + pool.misses), copiesPerPacket: 2 };
}

/** Frames that were lost in so many seconds, by the probe, whatever anybody tells. */
async function lostOf(capture, seconds) {
  const losses = new Losses();
  capture.on('packet', ({ samples }) => losses.see(samples));
  await delay(seconds * 1e3);
  return losses.frames;
}

/** What a Worker does, in a word that it looks at: no clock, since to read it allocates. */
const Phase = { warm: 0, measured: 1, over: 2 };

async function byWorker({ mode, rate, seconds }) {
  const phase = new Int32Array(new SharedArrayBuffer(4));
  const warm = await open(mode, 20_000);
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { warm: warm.share(), phase, rate },
    resourceLimits: { maxYoungGenerationSizeMb: 256 },
  });
  const result = new Promise((resolve) => worker.once('message', resolve));
  await delay(3_000);
  await warm.close();
  const capture = await open(mode, rate);
  Atomics.store(phase, 0, Phase.measured);
  capture.share(worker);
  await delay(seconds * 1e3);
  Atomics.store(phase, 0, Phase.over);
  const all = { ...(await result), ...told(capture) };
  await capture.close();
  await worker.terminate();
  return all;
}

async function inWorker({ warm, phase, rate }) {
  const meter = new Meter(rate);
  const readWhile = (reader, wanted) => {
    while (Atomics.load(phase, 0) === wanted) if (reader.read(100) !== undefined) meter.count();
  };
  readWhile(new AudioReader(warm), Phase.warm);
  const reader = await AudioReader.receive();
  await meter.begin();
  readWhile(reader, Phase.measured);
  parentPort.postMessage(await meter.end());
}

/** A peer, of the same sound server through ALSA. It tells neither times nor losses. */
async function byDecibri({ rate, seconds }) {
  const { Microphone } = createRequire(new URL('peers/', import.meta.url))('decibri');
  const options = { sampleRate: 48_000, channels: 2, framesPerBuffer: 480, format: 'float32' };
  if (rate !== DEVICE_RATE) return { cannot: 'it has devices only, and 64 frames a packet at least: 750 packets a second' };
  const source = new Microphone(options);
  const meter = new Meter(rate);
  const listener = () => meter.count();
  source.on('data', listener);
  await delay(5_000);
  await meter.begin();
  await delay(seconds * 1e3);
  const result = await meter.end();
  source.off('data', listener);
  const losses = new Losses();
  source.on('data', (chunk) => losses.see(new Float32Array(chunk.buffer, chunk.byteOffset, chunk.length / 4)));
  await delay(seconds * 1e3);
  return { ...result, lost: losses.frames };
}

if (isMainThread) await main();
else await inWorker(workerData);
