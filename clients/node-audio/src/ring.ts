import { performance } from 'node:perf_hooks';
import { bucketOf, ticksAt, ticksOf } from './latency';
import { Control, type Counter, Record, RECORD_BYTES, State } from './layout';
import { CopiedPacket, RingViews, SlotPacket } from './packet';
import { Tally, TallyWord } from './tally';
import type { Packet } from './types';

/** Spans of time of which each tells a latency: 2^28 ns are 268 ms. */
const SPAN_BITS = 28;

/** Modes of a reader. */
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
  /** Ticks from `performance.now()` to the clock that packets are timed by. */
  private readonly clockTicks = ticksOf(Number(process.hrtime.bigint()) / 1e6 - performance.now());
  /** Length of a full packet, in ticks. */
  private readonly packetTicks: number;
  private last: SlotPacket | undefined;
  private lastTurn = 0;
  /** The next packet is the first after a wait. */
  private isWoken = false;
  /** The span of time in which latency was noted last. */
  private notedSpan = -1;

  constructor(
    memory: SharedArrayBuffer,
    tally: Float64Array,
    private readonly mode: ReaderMode,
  ) {
    this.ring = new RingViews(memory, tally);
    this.queue = this.ring.word(Control.queue) / 4;
    this.mask = this.ring.word(Control.queueMask);
    this.packetTicks = ticksOf((this.ring.packetFrames * 1e3) / this.ring.sampleRate);
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

  /** Position of the oldest packet in the queue; if it is empty, of the next one. */
  get oldestPosition(): number {
    return this.positionOfOldest() ?? this.counter('frames');
  }

  private positionOfOldest(): number | undefined {
    const { words } = this.ring;
    for (;;) {
      const tail = Atomics.load(words, Control.tail);
      if (tail === Atomics.load(words, Control.head)) return undefined;
      const slot = Atomics.load(words, this.queue + (tail & this.mask));
      const record = (this.ring.word(Control.table) + slot * RECORD_BYTES) / 4;
      const position = this.ring.wide(record + Record.position);
      // Its slot was not reused meanwhile.
      if (Atomics.load(words, Control.tail) === tail) return position;
    }
  }

  /** Blocking readers that have begun, in any thread; wraps. */
  get readersBegun(): number {
    return Atomics.load(this.ring.words, Control.readersBegun);
  }

  /** True if every blocking reader has ended. */
  get haveReadersEnded(): boolean {
    return Atomics.load(this.ring.words, Control.readersEnded) === this.readersBegun;
  }

  /**
   * Frees slots that another thread had taken when it ended. That thread was the only reader besides this one.
   */
  reclaim(): void {
    const { words, tallyWords } = this.ring;
    // In an empty queue nothing tells a packet that was taken from one that is being published.
    const oldest = this.positionOfOldest() ?? 0;
    for (const packet of this.packets) {
      if (packet.isHeld) continue;
      const { record } = packet;
      Atomics.compareExchange(words, record, 1, State.free);
      // Taken from the queue and not held yet: all in the queue, or on their way there, are later.
      // The state is read first: a slot that is free now is filled with another packet next.
      const isFilled = Atomics.load(words, record) === State.filled;
      const isTaken = isFilled && this.ring.wide(record + Record.position) < oldest;
      if (isTaken) Atomics.compareExchange(words, record, State.filled, State.free);
    }
    tallyWords[TallyWord.held] = this.packets.filter(({ isHeld }) => isHeld).length;
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

  /** Marks the next packet as the first after a wait: its latency may be noted. */
  noteWake(): void {
    this.isWoken = true;
  }

  /** Packets before which frames were missing; wraps. */
  get gaps(): number {
    return Atomics.load(this.ring.tallyWords, TallyWord.gaps);
  }

  /** Packets that were taken. */
  get delivered(): number {
    const { tallyWords } = this.ring;
    const high = tallyWords[TallyWord.deliveredHigh] as number;
    return ((tallyWords[TallyWord.delivered] as number) >>> 0) + high * 0x1_0000_0000;
  }

  count(index: number, by: number): void {
    const { tally } = this.ring;
    tally[index] = (tally[index] as number) + by;
  }

  counter(name: keyof typeof Counter): number {
    return this.ring.counter(name);
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
    const { words, tallyWords } = this.ring;
    const { record } = packet;
    const position = words[record + Record.position] as number;
    // By the low words: a gap of 2^32 frames is a day.
    const dropped = (position - (tallyWords[TallyWord.position] as number)) >>> 0;
    tallyWords[TallyWord.position] = position + (words[record + Record.frames] as number);
    const estimates = words[record + Record.estimated] as number;
    const estimated = (estimates - (tallyWords[TallyWord.estimated] as number)) >>> 0;
    tallyWords[TallyWord.estimated] = estimates;
    tallyWords[TallyWord.peak] = words[record + Record.peak] as number;
    tallyWords[TallyWord.rms] = words[record + Record.rms] as number;
    if (dropped > 0) this.noteGap(dropped, estimated);
    const delivered = ((tallyWords[TallyWord.delivered] as number) + 1) | 0;
    tallyWords[TallyWord.delivered] = delivered;
    if (delivered === 0) tallyWords[TallyWord.deliveredHigh] = (tallyWords[TallyWord.deliveredHigh] as number) + 1;
    const held = (tallyWords[TallyWord.held] as number) + 1;
    tallyWords[TallyWord.held] = held;
    if (held > (tallyWords[TallyWord.heldPeak] as number)) tallyWords[TallyWord.heldPeak] = held;
    if (this.isWoken) this.noteLatency(record);
    packet.begin(dropped, estimated > 0);
    return packet;
  }

  private noteGap(dropped: number, estimated: number): void {
    this.count(Tally.droppedFrames, dropped);
    if (estimated > 0) this.count(Tally.estimatedFrames, estimated);
    // Another thread that sees it sees the frames too.
    Atomics.add(this.ring.tallyWords, TallyWord.gaps, 1);
  }

  /** Counts frames that are missing after the last packet. The capture has ended, and the queue is empty. */
  noteEnd(): void {
    const { tallyWords } = this.ring;
    const [position, estimates] = [this.counter('frames') | 0, this.counter('estimatedFrames') | 0];
    const dropped = (position - (tallyWords[TallyWord.position] as number)) >>> 0;
    const estimated = (estimates - (tallyWords[TallyWord.estimated] as number)) >>> 0;
    if (dropped === 0) return;
    tallyWords[TallyWord.position] = position;
    tallyWords[TallyWord.estimated] = estimates;
    this.noteGap(dropped, estimated);
  }

  /**
   * Notes how long after its last frame a packet is delivered: of the first wake in each span, since
   * to read the clock allocates a number.
   */
  private noteLatency(record: number): void {
    this.isWoken = false;
    const { words, tallyWords, packetFrames, sampleRate } = this.ring;
    const published = record + Record.publishedNs;
    const span = ((words[published] as number) >>> SPAN_BITS) | ((words[published + 1] as number) << (32 - SPAN_BITS));
    if (span === this.notedSpan) return;
    this.notedSpan = span;
    const frames = words[record + Record.frames] as number;
    const length = frames === packetFrames ? this.packetTicks : ticksOf((frames * 1e3) / sampleRate);
    const now = (ticksOf(performance.now()) + this.clockTicks) | 0;
    const ticks = Math.max(0, (now - ticksAt(words, record + Record.timeNs) - length) | 0);
    const bucket = TallyWord.latency + bucketOf(ticks);
    tallyWords[bucket] = (tallyWords[bucket] as number) + 1;
    if (ticks > (tallyWords[TallyWord.latencyMax] as number)) tallyWords[TallyWord.latencyMax] = ticks;
  }
}
