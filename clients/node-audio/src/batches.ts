import './symbols';
import type { AudioCapture } from './capture';
import { invalid } from './options';
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

export async function* batches(
  capture: AudioCapture,
  { maxMs = 50, maxPackets }: BatchOptions,
): AsyncGenerator<Batch, void, undefined> {
  if (!(maxMs >= 1 && maxMs <= 10_000)) throw invalid(`maxMs is ${maxMs}; expected 1 to 10000`);
  const slots = capture.stats().slots.total;
  const most = maxPackets ?? Math.max(1, slots >> 1);
  if (!(most >= 1 && most <= slots)) throw invalid(`maxPackets is ${most}; expected 1 to ${slots}`);
  const done = capture.begin('batches');
  const batch = new Batch();
  try {
    while (await capture.wait()) {
      const deadline = performance.now() + maxMs;
      fill(capture, batch, most);
      while (batch.length < most && performance.now() < deadline && !capture.closed) {
        await new Promise((resolve) => setTimeout(resolve, deadline - performance.now()));
        fill(capture, batch, most);
      }
      if (batch.length > 0) yield batch;
      batch.release();
    }
  } finally {
    batch.release();
    done();
  }
}

function fill(capture: AudioCapture, { packets }: Batch, most: number): void {
  while (packets.length < most) {
    const packet = capture.nextHeld();
    if (packet === undefined) return;
    packets.push(packet);
  }
}
