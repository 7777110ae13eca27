import { AudioCapture } from './capture';
import { HeapMeter } from './heap-meter';
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

/** Packets from one reading of the heap to the next. */
const SPAN = 1_024;

export interface BenchRow {
  mode: string;
  packetsPerSecond: number;
  packets: number;
  /** Absent: the garbage collector came too often to tell. */
  heapBytesPerPacket?: number;
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
      (row.heapBytesPerPacket?.toFixed(1) ?? '-').padStart(19),
      String(row.droppedFrames).padStart(6),
      `${(row.reuse * 100).toFixed(1)} %`.padStart(12),
    ];
    process.stdout.write(`${cells.join(' ')}\n`);
  }
}

async function measure({ name, options, isLoop }: Mode, seconds: number): Promise<BenchRow> {
  const meter = new HeapMeter();
  await meter.begin();
  const source = { kind: 'synthetic', synthetic: { pace: 'burst' } } as const;
  const capture = await AudioCapture.open({ ...options, source, ring: { slots: 4_096 } });
  let packets = 0;
  const beganMs = performance.now();
  /** True while the measurement runs. */
  const see = (): boolean => {
    packets += 1;
    if (packets % SPAN !== 0) return true;
    meter.read(packets);
    return performance.now() - beganMs < seconds * 1e3;
  };
  if (isLoop === true) {
    for await (const _packet of capture) if (!see()) break;
  } else {
    await events(capture, see);
  }
  const elapsed = (performance.now() - beganMs) / 1e3;
  await capture.close();
  const { droppedFrames, reuse } = capture.stats();
  const { perPacket } = await meter.end();
  return {
    mode: name,
    packets,
    packetsPerSecond: packets / elapsed,
    ...(perPacket === undefined ? {} : { heapBytesPerPacket: perPacket }),
    droppedFrames,
    reuse,
  };
}

function events(capture: AudioCapture, see: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const listener = (): void => {
      if (see()) return;
      capture.off('packet', listener);
      resolve();
    };
    capture.on('packet', listener);
  });
}
