// One case of the benchmark, in a process of its own: `node --expose-gc --min-semi-space-size=256
// --max-semi-space-size=256 case.mjs MODE PACKETS_A_SECOND SECONDS`; 0 packets a second: as many as slots are free for.
import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { AudioCapture, AudioReader } from '@steppe/audio';

const used = () => getHeapStatistics().used_heap_size;

/** Memory that comes back when the garbage collector finds that nobody has it: a pool of 100. */
class CollectedPool {
  free = Array.from({ length: 100 }, () => new ArrayBuffer(3_840));
  hits = 0;
  misses = 0;
  registry = new FinalizationRegistry((memory) => this.free.push(memory));

  give(packet) {
    const memory = this.free.pop();
    if (memory === undefined) this.misses += 1;
    else this.hits += 1;
    const buffer = Buffer.from(memory ?? new ArrayBuffer(3_840));
    packet.bytes.copy(buffer);
    // The buffer's death gives its memory back; memory that was made for a miss is let go.
    if (memory !== undefined) this.registry.register(buffer, memory);
    return buffer;
  }
}

/** Counts what was allocated between `begin` and `end`, collections that happen meanwhile excluded. */
class Meter {
  packets = 0;
  collections = { count: 0, ms: 0 };

  constructor() {
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) {
        this.collections.count += 1;
        this.collections.ms += duration;
      }
    }).observe({ entryTypes: ['gc'] });
  }

  async begin() {
    globalThis.gc();
    // The observer is told of it later.
    await new Promise((resolve) => setTimeout(resolve, 50));
    this.collections = { count: 0, ms: 0 };
    Object.assign(this, { packets: 0, heap: used(), beganMs: performance.now() });
  }

  end() {
    const elapsed = (performance.now() - this.beganMs) / 1e3;
    const allocated = used() - this.heap;
    const { count, ms } = this.collections;
    globalThis.gc();
    const { external, arrayBuffers } = process.memoryUsage();
    return {
      packets: this.packets,
      packetsPerSecond: this.packets / elapsed,
      heapBytesPerPacket: count === 0 ? allocated / this.packets : undefined,
      retainedKb: (used() - this.heap) / 1024,
      externalMb: (external + arrayBuffers) / 1048576,
      collections: count,
      collectionMs: ms,
    };
  }
}

function open(mode, rate) {
  return AudioCapture.open({
    source: { kind: 'synthetic', synthetic: rate === 0 ? { pace: 'burst' } : { speed: rate / 100 } },
    format: { channels: 2, sample: 'f32' },
    packetMs: 10,
    ring: { slots: 2_048 },
    mode: mode === 'copy' ? 'copy' : 'zero-copy',
  });
}

async function main() {
  const [mode, rate, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
  const read = mode === 'worker' ? byWorker : byEvents;
  // Code is compiled before it is measured: many wakes, then many packets.
  for (const warm of [20_000, 0]) {
    const capture = await open(mode, warm);
    if (mode !== 'worker') await byEvents(capture, mode, 2);
    await capture.close();
  }
  const capture = await open(mode, rate);
  const result = await read(capture, mode, seconds);
  const { reuse, droppedFrames, latencyMs, copiesPerPacket, wakes } = capture.stats();
  await capture.close();
  console.log(JSON.stringify({ mode, rate, reuse, droppedFrames, p99Ms: latencyMs.p99, copiesPerPacket, wakes, ...result }));
  process.exit();
}

async function byEvents(capture, mode, seconds) {
  const meter = new Meter();
  const pool = new CollectedPool();
  let kept;
  capture.on('packet', (packet) => {
    meter.packets += 1;
    if (mode === 'collected pool') kept = pool.give(packet);
  });
  await new Promise((resolve) => setTimeout(resolve, 200));
  const wakes = capture.stats().wakes;
  await meter.begin();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1e3));
  const result = meter.end();
  void kept;
  const measuredWakes = capture.stats().wakes - wakes;
  const heapBytesPerWake = (result.heapBytesPerPacket * result.packets) / measuredWakes;
  if (mode !== 'collected pool') return { ...result, heapBytesPerWake };
  return { ...result, reuse: pool.hits / (pool.hits + pool.misses), copiesPerPacket: 2 };
}

async function byWorker(capture, _mode, seconds) {
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { shared: capture.share(), seconds },
    resourceLimits: { maxYoungGenerationSizeMb: 256 },
  });
  const [result] = await Promise.all([new Promise((resolve) => worker.once('message', resolve))]);
  await worker.terminate();
  return result;
}

async function inWorker({ shared, seconds }) {
  const reader = new AudioReader(shared);
  const meter = new Meter();
  const read = (ms) => {
    const endMs = performance.now() + ms;
    for (let left = 0; ; left -= 1) {
      if (left <= 0) {
        if (performance.now() >= endMs) return;
        left = 16;
      }
      if (reader.read(100) !== undefined) meter.packets += 1;
    }
  };
  read(1_500);
  await meter.begin();
  read(seconds * 1e3);
  parentPort.postMessage(meter.end());
}

if (isMainThread) await main();
else await inWorker(workerData);
