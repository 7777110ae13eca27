import './symbols';
import { AudioError } from './error';
import { Control, Counter, COUNTERS, Flag, MAGIC, Record, SAMPLE_BYTES, SAMPLES, VERSION } from './layout';
import { Tally, TallyWord } from './tally';
import type { Packet, SampleFormat, Samples } from './types';

/** Views of a ring's memory, and what packets share. */
export class RingViews {
  readonly words: Int32Array;
  readonly floats: Float32Array;
  /** Words of the tally. */
  readonly tallyWords: Int32Array;
  readonly sample: SampleFormat;
  readonly sampleRate: number;
  readonly channels: number;
  readonly packetFrames: number;
  readonly slots: number;

  constructor(
    readonly memory: SharedArrayBuffer,
    readonly tally: Float64Array,
  ) {
    this.words = new Int32Array(memory);
    this.checkLayout();
    this.floats = new Float32Array(memory);
    this.tallyWords = new Int32Array(tally.buffer);
    this.sample = SAMPLES[this.word(Control.sample)] ?? 's16';
    this.sampleRate = this.word(Control.rate);
    this.channels = this.word(Control.channels);
    this.packetFrames = this.word(Control.packetFrames);
    this.slots = this.word(Control.slots);
  }

  /** Throws if the memory is no ring, or one of another version of this package. */
  private checkLayout(): void {
    if (this.word(Control.magic) !== MAGIC) {
      throw new AudioError('ERR_INVALID_OPTION', 'invalid option: not the memory of a capture');
    }
    const version = this.word(Control.version);
    if (version !== VERSION) throw otherVersion(`ring layout ${version}`, VERSION);
  }

  word(index: number): number {
    return this.words[index] as number;
  }

  /** A number of 64 bits: exact to 2^53. */
  wide(index: number): number {
    return (this.word(index) >>> 0) + (this.word(index + 1) >>> 0) * 0x1_0000_0000;
  }

  /** A counter that the producer may change meanwhile: its high word and its low one, of one time. */
  counter(name: keyof typeof Counter): number {
    const index = COUNTERS / 4 + Counter[name] * 2;
    const { words } = this;
    for (;;) {
      const high = Atomics.load(words, index + 1);
      const low = Atomics.load(words, index);
      if (Atomics.load(words, index + 1) === high) return (low >>> 0) + high * 0x1_0000_0000;
    }
  }

  samplesAt(offset: number, length: number): Samples {
    if (this.sample === 's16') return new Int16Array(this.memory, offset, length);
    if (this.sample === 'f32') return new Float32Array(this.memory, offset, length);
    return new Uint8Array(this.memory, offset, length);
  }
}

/** The error for memory or a message of another version of this package. */
export function otherVersion(found: string, expected: number): AudioError {
  const message = `${found} is not supported; expected ${expected}: use one version of @steppe/audio on all threads`;
  return new AudioError('ERR_UNSUPPORTED', message);
}

/**
 * A packet in its slot. There is one object a slot, with one set of views, which come back with
 * other sound; in debug mode there is a fresh one for each packet, which is no more to be used once
 * it was released.
 */
export class SlotPacket implements Packet {
  droppedBefore = 0;
  droppedEstimated = false;
  readonly sampleRate: number;
  readonly channels: number;
  /** Index of the record's first word. */
  readonly record: number;
  /** Number of releases before the slot is free; one of them is the loan, if there is one. */
  private holds = 0;
  private isOnLoan = false;
  /** Tells one stay of a packet in this slot from the next. */
  turn = 0;
  private readonly allBytes: Buffer;
  private readonly allSamples: Samples;

  constructor(
    private readonly ring: RingViews,
    slot: number,
    private readonly isChecked: boolean,
  ) {
    const offset = ring.word(Control.data) + slot * ring.word(Control.stride);
    const samples = ring.packetFrames * ring.channels;
    this.record = ring.word(Control.table) / 4 + slot * 16;
    this.sampleRate = ring.sampleRate;
    this.channels = ring.channels;
    this.allBytes = Buffer.from(ring.memory, offset, samples * SAMPLE_BYTES[ring.sample]);
    this.allSamples = ring.samplesAt(offset, samples);
  }

  /** True while this thread holds the slot. */
  get isHeld(): boolean {
    return this.holds > 0;
  }

  /** The slot was taken: the packet begins its loan. */
  begin(droppedBefore: number, droppedEstimated: boolean): void {
    Atomics.store(this.ring.words, this.record, 1);
    this.droppedEstimated = droppedEstimated;
    this.droppedBefore = droppedBefore;
    this.holds = 1;
    this.isOnLoan = true;
    this.turn = (this.turn + 1) | 0;
  }

  /** The reader that lent it wants it back; whoever retained it has it still. */
  endLoan(turn: number): void {
    if (this.turn !== turn || !this.isOnLoan) return;
    this.isOnLoan = false;
    this.drop();
  }

  get sequence(): number {
    return this.wide(Record.sequence);
  }

  get timeNs(): number {
    return this.wide(Record.timeNs);
  }

  get position(): number {
    return this.wide(Record.position);
  }

  get wallTimeMs(): number {
    return (this.timeNs + this.ring.counter('wallOffsetNs')) / 1e6;
  }

  get timeErrorMs(): number {
    const { ring } = this;
    const ns = ring.counter('timeErrorNs') + ring.counter('wallErrorNs');
    return ns / 1e6 + (this.timeEstimated ? (this.frames * 1e3) / this.sampleRate : 0);
  }

  get frames(): number {
    return this.word(Record.frames);
  }

  get timeEstimated(): boolean {
    return (this.word(Record.flags) & Flag.timeEstimated) !== 0;
  }

  get silent(): boolean {
    return (this.word(Record.flags) & Flag.silent) !== 0;
  }

  get discontinuity(): boolean {
    // Frames that an overrun dropped are known when the packet after them is taken.
    return (this.word(Record.flags) & Flag.discontinuity) !== 0 || this.droppedBefore > 0;
  }

  get voiceBegins(): boolean {
    return (this.word(Record.flags) & Flag.voiceBegins) !== 0;
  }

  get peak(): number {
    this.check();
    return this.ring.floats[this.record + Record.peak] as number;
  }

  get rms(): number {
    this.check();
    return this.ring.floats[this.record + Record.rms] as number;
  }

  get bytes(): Buffer {
    const bytes = this.word(Record.bytes);
    return bytes === this.allBytes.length ? this.allBytes : this.allBytes.subarray(0, bytes);
  }

  get samples(): Samples {
    const length = this.word(Record.frames) * this.channels;
    const all = this.allSamples;
    return length === all.length ? all : all.subarray(0, length);
  }

  retain(): this {
    this.check();
    if (this.holds === 0) throw released();
    this.holds += 1;
    return this;
  }

  release(): void {
    if (this.holds === 0) {
      if (this.isChecked) throw released();
      return;
    }
    this.isOnLoan = false;
    this.drop();
  }

  copy(): Buffer {
    this.countCopy();
    return Buffer.from(this.bytes);
  }

  copyTo<T extends Samples>(target: T): T {
    this.countCopy();
    target.set(this.samples);
    return target;
  }

  [Symbol.dispose](): void {
    // A loop that released early disposes of nothing.
    if (this.holds > 0) this.release();
  }

  private countCopy(): void {
    const { tally } = this.ring;
    tally[Tally.copies] = (tally[Tally.copies] as number) + 1;
  }

  private drop(): void {
    this.holds -= 1;
    if (this.holds > 0) return;
    if (this.isChecked) this.allBytes.fill(this.ring.sample === 'f32' ? 0xff : 0x7f);
    const { tallyWords, words } = this.ring;
    tallyWords[TallyWord.held] = (tallyWords[TallyWord.held] as number) - 1;
    Atomics.sub(words, this.record, 1);
  }

  private check(): void {
    if (this.isChecked && this.holds === 0) throw released();
  }

  private word(field: number): number {
    this.check();
    return this.ring.word(this.record + field);
  }

  private wide(field: number): number {
    this.check();
    return this.ring.wide(this.record + field);
  }
}

function released(): AudioError {
  return new AudioError(
    'ERR_PACKET_RELEASED',
    'this packet was released, and its slot was reused; call retain() to keep it, or copy() its samples',
  );
}

/** A packet with memory of its own: `mode: 'copy'`. */
export class CopiedPacket implements Packet {
  readonly sequence: number;
  readonly timeNs: number;
  readonly position: number;
  readonly timeEstimated: boolean;
  readonly wallTimeMs: number;
  readonly timeErrorMs: number;
  readonly frames: number;
  readonly channels: number;
  readonly sampleRate: number;
  readonly bytes: Buffer;
  readonly samples: Samples;
  readonly silent: boolean;
  readonly discontinuity: boolean;
  readonly voiceBegins: boolean;
  readonly peak: number;
  readonly rms: number;
  readonly droppedBefore: number;
  readonly droppedEstimated: boolean;

  constructor(packet: Packet) {
    this.sequence = packet.sequence;
    this.timeNs = packet.timeNs;
    this.position = packet.position;
    this.timeEstimated = packet.timeEstimated;
    this.wallTimeMs = packet.wallTimeMs;
    this.timeErrorMs = packet.timeErrorMs;
    this.frames = packet.frames;
    this.channels = packet.channels;
    this.sampleRate = packet.sampleRate;
    this.silent = packet.silent;
    this.discontinuity = packet.discontinuity;
    this.voiceBegins = packet.voiceBegins;
    this.peak = packet.peak;
    this.rms = packet.rms;
    this.droppedBefore = packet.droppedBefore;
    this.droppedEstimated = packet.droppedEstimated;
    this.samples = packet.samples.slice();
    const { buffer, byteOffset, byteLength } = this.samples;
    this.bytes = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
  }

  retain(): this {
    return this;
  }

  release(): void {}

  copy(): Buffer {
    return Buffer.from(this.bytes);
  }

  copyTo<T extends Samples>(target: T): T {
    target.set(this.samples);
    return target;
  }

  [Symbol.dispose](): void {}
}
