import './symbols';
import { checked, invalid } from './check';
import { stoppable, type PacketReader, type Reading } from './reader';
import type { BatchOptions, Packet } from './types';

/** Packets that are delivered together. The object is reused: a batch is valid until the next one is requested. */
export class Batch {
  readonly packets: Packet[] = [];

  get length(): number {
    return this.packets.length;
  }

  get frames(): number {
    return this.packets.reduce((sum, packet) => sum + packet.frames, 0);
  }

  [Symbol.iterator](): ArrayIterator<Packet> {
    return this.packets[Symbol.iterator]();
  }

  /** Releases all packets of the batch that were not released yet. */
  release(): void {
    for (const packet of this.packets) packet[Symbol.dispose]();
    this.packets.length = 0;
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

/** Limits of a batch: time from its first packet, and number of packets. */
interface Limits {
  maxMs: number;
  maxPackets: number;
}

export function batches(reader: PacketReader, options: BatchOptions): AsyncGenerator<Batch, void, undefined> {
  const { maxMs = 50, maxPackets = Math.max(1, reader.slots >> 1) } = checked.batches(options);
  if (maxPackets > reader.slots) throw invalid(`maxPackets is ${maxPackets}; the ring has ${reader.slots} slots`);
  const reading = reader.reading('batches');
  return stoppable(reading, loop(reading, { maxMs, maxPackets }));
}

async function* loop(reading: Reading, limits: Limits): AsyncGenerator<Batch, void, undefined> {
  const batch = new Batch();
  reading.begin();
  try {
    while (await fill(reading, batch, limits)) {
      if (batch.length > 0) yield batch;
      batch.release();
    }
  } finally {
    batch.release();
    reading.end();
  }
}

/** Fills a batch until it is full or old. False: no packet follows, or the reading was stopped. */
export async function fill(reading: Reading, batch: Batch, { maxMs, maxPackets }: Limits): Promise<boolean> {
  if (!(await reading.wait())) return false;
  const deadline = performance.now() + maxMs;
  for (;;) {
    take(reading, batch, maxPackets);
    const leftMs = deadline - performance.now();
    if (batch.length >= maxPackets || leftMs <= 0 || reading.stopped || reading.isLast) return true;
    await reading.sleep(leftMs);
  }
}

function take(reading: Reading, { packets }: Batch, most: number): void {
  while (packets.length < most) {
    const packet = reading.nextHeld();
    if (packet === undefined) return;
    packets.push(packet);
  }
}
