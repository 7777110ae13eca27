import { AudioCapture } from './capture';
import type { CaptureOptions } from './types';

/** A mode of the benchmark: how packets are read. */
interface Mode {
  name: string;
  options: CaptureOptions;
  isLoop?: boolean;
}

const MODES: readonly Mode[] = [
  { name: 'events, in place', options: {} },
  { name: 'for await, in place', options: {}, isLoop: true },
  { name: 'events, copies', options: { mode: 'copy' } },
];

export interface BenchRow {
  mode: string;
  packetsPerSecond: number;
  packets: number;
  heapBytesPerPacket: number;
  droppedFrames: number;
  reuse: number;
}

/** Measures each mode for so many seconds: as many packets as it takes, made up as fast as slots are free. */
export async function bench(seconds: number, isJson: boolean): Promise<void> {
  const rows: BenchRow[] = [];
  for (const mode of MODES) rows.push(await measure(mode, seconds));
  if (isJson) return void process.stdout.write(`${JSON.stringify(rows)}\n`);
  process.stdout.write('mode                  packets/s   heap bytes/packet   lost   slot reuse\n');
  for (const row of rows) {
    const cells = [
      row.mode.padEnd(20),
      Math.round(row.packetsPerSecond).toLocaleString('en').padStart(10),
      row.heapBytesPerPacket.toFixed(1).padStart(19),
      String(row.droppedFrames).padStart(6),
      `${(row.reuse * 100).toFixed(1)} %`.padStart(12),
    ];
    process.stdout.write(`${cells.join(' ')}\n`);
  }
}

async function measure({ name, options, isLoop }: Mode, seconds: number): Promise<BenchRow> {
  const source = { kind: 'synthetic', synthetic: { pace: 'burst' } } as const;
  const capture = await AudioCapture.open({ ...options, source, ring: { slots: 4_096 } });
  const counts = { packets: 0, heapBytes: 0, heapUsed: process.memoryUsage().heapUsed };
  const beganMs = performance.now();
  const see = (): boolean => {
    counts.packets += 1;
    if (counts.packets % 1_024 !== 0) return true;
    // What a collection takes away is no allocation: only growth counts.
    const { heapUsed } = process.memoryUsage();
    counts.heapBytes += Math.max(0, heapUsed - counts.heapUsed);
    counts.heapUsed = heapUsed;
    return performance.now() - beganMs < seconds * 1e3;
  };
  if (isLoop === true) {
    for await (const _packet of capture) if (!see()) break;
  } else {
    await new Promise<void>((resolve) => {
      const listener = (): void => {
        if (see()) return;
        capture.off('packet', listener);
        resolve();
      };
      capture.on('packet', listener);
    });
  }
  const elapsed = (performance.now() - beganMs) / 1e3;
  await capture.close();
  const { droppedFrames, reuse } = capture.stats();
  const { packets, heapBytes } = counts;
  return {
    mode: name,
    packets,
    packetsPerSecond: packets / elapsed,
    heapBytesPerPacket: heapBytes / packets,
    droppedFrames,
    reuse,
  };
}
