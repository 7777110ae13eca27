import { performance } from 'node:perf_hooks';
import { Control, Counter, COUNTERS, LATENCY_BUCKETS, Record, Tally, TallyWord } from './layout';
import { CopiedPacket, RingViews, SlotPacket } from './packet';
import type { Packet } from './types';

/** What a reader makes of packets. */
export interface ReaderMode {
  debug: boolean;
  copy: boolean;
}

/**
 * Takes packets out of a ring. One thread at a time: what it counts is in `tally`, memory that the
 * capture's thread sees too. Taking a packet allocates nothing, except in debug and copy mode.
 */
export class RingReader {
  readonly ring: RingViews;
  private readonly packets: SlotPacket[] = [];
  private readonly queue: number;
  private readonly mask: number;
  /** `performance.now()` of the clock that packets are timed by. */
  private readonly clockOffsetMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();
  private last: SlotPacket | undefined;
  private lastTurn = 0;

  constructor(
    memory: SharedArrayBuffer,
    tally: Float64Array,
    private readonly mode: ReaderMode,
  ) {
    this.ring = new RingViews(memory, tally);
    this.queue = this.ring.word(Control.queue) / 4;
    this.mask = this.ring.word(Control.queueMask);
    for (let slot = 0; slot < this.ring.slots; slot += 1) {
      this.packets.push(new SlotPacket(this.ring, slot, mode.debug));
    }
  }

  get isEmpty(): boolean {
    const { words } = this.ring;
    return Atomics.load(words, Control.tail) === Atomics.load(words, Control.head);
  }

  get head(): number {
    return Atomics.load(this.ring.words, Control.head);
  }

  /** Nothing follows what is in the queue. */
  get isClosed(): boolean {
    return Atomics.load(this.ring.words, Control.closed) !== 0;
  }

  /** The oldest packet, on loan until the next `take` or `endLoan`. */
  take(): Packet | undefined {
    this.endLoan();
    const packet = this.takeSlot();
    if (packet === undefined) return undefined;
    if (!this.mode.copy) {
      this.last = packet;
      this.lastTurn = packet.turn;
      return packet;
    }
    const copy = new CopiedPacket(packet);
    this.count(Tally.copies, 1);
    packet.release();
    return copy;
  }

  /** As `take`, held until it is released. */
  takeHeld(): Packet | undefined {
    const packet = this.take();
    this.last = undefined;
    return packet;
  }

  endLoan(): void {
    this.last?.endLoan(this.lastTurn);
    this.last = undefined;
  }

  /** Notes how long after its last frame this packet is delivered. */
  noteLatency(packet: Packet): void {
    const nowMs = performance.now() + this.clockOffsetMs;
    const lengthMs = (packet.frames * 1e3) / packet.sampleRate;
    const ms = Math.max(0, nowMs - packet.timeNs / 1e6 - lengthMs);
    const bucket = ms < 0.001 ? 0 : Math.min(LATENCY_BUCKETS - 1, Math.floor(4 * Math.log2(ms * 1e3)));
    const { tally } = this.ring;
    this.count(Tally.latencyFirst + bucket, 1);
    if (ms > (tally[Tally.latencyMaxMs] as number)) tally[Tally.latencyMaxMs] = ms;
  }

  count(index: number, by: number): void {
    const { tally } = this.ring;
    tally[index] = (tally[index] as number) + by;
  }

  counter(name: keyof typeof Counter): number {
    const index = COUNTERS / 4 + Counter[name] * 2;
    const { words } = this.ring;
    for (;;) {
      const high = Atomics.load(words, index + 1);
      const low = Atomics.load(words, index);
      if (Atomics.load(words, index + 1) === high) {
        return (low >>> 0) + (high >>> 0) * 0x1_0000_0000;
      }
    }
  }

  private takeSlot(): SlotPacket | undefined {
    const { words } = this.ring;
    for (;;) {
      const tail = Atomics.load(words, Control.tail);
      if (tail === Atomics.load(words, Control.head)) return undefined;
      const slot = Atomics.load(words, this.queue + (tail & this.mask));
      const next = (tail + 1) | 0;
      // Another may have been first: the producer, which drops the oldest.
      if (Atomics.compareExchange(words, Control.tail, tail, next) === tail) return this.begin(slot);
    }
  }

  private begin(slot: number): SlotPacket {
    if (this.mode.debug) this.packets[slot] = new SlotPacket(this.ring, slot, true);
    const packet = this.packets[slot] as SlotPacket;
    const { words, tally, tallyWords } = this.ring;
    const { record } = packet;
    const position = words[record + Record.position] as number;
    // By the low words: a gap of 2^32 frames is a day.
    const dropped = (position - (tallyWords[TallyWord.position] as number)) >>> 0;
    tallyWords[TallyWord.position] = position + (words[record + Record.frames] as number);
    tallyWords[TallyWord.peak] = words[record + Record.peak] as number;
    tallyWords[TallyWord.rms] = words[record + Record.rms] as number;
    if (dropped > 0) tally[Tally.droppedFrames] = (tally[Tally.droppedFrames] as number) + dropped;
    tally[Tally.delivered] = (tally[Tally.delivered] as number) + 1;
    const held = (tally[Tally.held] as number) + 1;
    tally[Tally.held] = held;
    if (held > (tally[Tally.heldPeak] as number)) tally[Tally.heldPeak] = held;
    packet.begin(dropped);
    return packet;
  }
}
