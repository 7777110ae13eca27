import type { Writable } from 'node:stream';
import { Batch, fill } from './batches';
import { checked, invalid } from './check';
import { fileError } from './error';
import { checkPattern, nameOf } from './file-pattern';
import type { PacketReader, Reading } from './reader';
import { openSink, StreamSink, type Sink } from './sink';
import { TIMEOUT_MS_MAX } from './timeout';
import type { Packet, RecordOptions, WavSummary } from './types';
import { frameBytesOf, headerBytesOf, silenceOf, WavFile } from './wav';

/** Longest time from a packet to its write, in ms. */
const BATCH_MS = 100;
/** Time without sound after which a recording whose `seconds` have passed ends, in ms. */
const IDLE_MS = 500;
/** Time without progress after which an aborted recording gives up the reader of a pipe, in ms. */
const ABANDON_MS = 2_000;
/** A long gap is filled by pieces of so many bytes. */
const FILL_BYTES = 64 << 10;

export async function recordWav(
  reader: PacketReader,
  target: string | Writable,
  options: RecordOptions,
): Promise<WavSummary> {
  checked.record(options);
  if (typeof target === 'string' ? target === '' : typeof target?.write !== 'function') {
    throw invalid(`the target is '${String(target)}'; expected a path or a writable stream`);
  }
  if (options.roll !== undefined) {
    if (typeof target !== 'string') throw invalid("'roll' needs a path, not a stream");
    checkPattern(target);
  }
  options.signal?.throwIfAborted();
  return new Recording(reader, target, options).run();
}

/** Writes the packets of a capture to WAV files. Slots are written in place and held until they are written. */
class Recording {
  private readonly reading: Reading;
  private readonly frameBytes: number;
  /** Bytes of samples in all, and in each file. */
  private readonly bytesMax: number;
  private readonly fileBytesMax: number;
  private readonly silence: Buffer;
  private file: WavFile | undefined;
  private sink: Sink | undefined;
  private files = 0;
  /** Bytes of samples that were taken, in all and for the open file, written or in `pending`. */
  private taken = 0;
  private takenOfFile = 0;
  private pending: Buffer[] = [];
  private pendingBytes = 0;
  private readonly summary = { frames: 0, droppedFrames: 0, bytes: 0 };
  private firstPosition = 0;
  private deadline: NodeJS.Timeout | undefined;
  private lastSoundMs = performance.now();

  constructor(
    private readonly reader: PacketReader,
    private readonly target: string | Writable,
    private readonly options: RecordOptions,
  ) {
    const { format } = reader;
    const { seconds = Infinity, roll } = options;
    this.reading = reader.reading('a recording');
    this.frameBytes = frameBytesOf(format);
    const framesOf = (length: number): number => Math.max(1, Math.round(length * format.sampleRate));
    this.bytesMax = framesOf(seconds) * this.frameBytes;
    const framesOfFile = Math.min(
      roll?.seconds === undefined ? Infinity : framesOf(roll.seconds),
      roll?.bytes === undefined ? Infinity : Math.max(1, Math.floor((roll.bytes - headerBytesOf(reader.format)) / this.frameBytes)),
    );
    this.fileBytesMax = framesOfFile * this.frameBytes;
    this.silence = Buffer.alloc(FILL_BYTES - (FILL_BYTES % this.frameBytes), silenceOf(format));
  }

  async run(): Promise<WavSummary> {
    const { reading, options } = this;
    reading.begin();
    let abandoning: NodeJS.Timeout | undefined;
    const abort = (): void => {
      reading.stop();
      abandoning = setInterval(() => this.sink?.abandonAfter(ABANDON_MS), ABANDON_MS / 4);
    };
    options.signal?.addEventListener('abort', abort, { once: true });
    try {
      await this.write();
      return { path: this.path, files: this.files, ...this.summary };
    } finally {
      clearTimeout(this.deadline);
      options.signal?.removeEventListener('abort', abort);
      clearInterval(abandoning);
      reading.end();
    }
  }

  private get path(): string {
    return typeof this.target === 'string' ? this.target : '-';
  }

  private async write(): Promise<void> {
    const batch = new Batch();
    const limits = { maxMs: BATCH_MS, maxPackets: Math.max(1, this.reader.slots >> 1) };
    try {
      // The recording begins when its target is open: a FIFO may wait for its reader.
      await this.open();
      this.firstPosition = this.reader.ring.oldestPosition;
      this.watchDeadline();
      while (this.taken < this.bytesMax && (await fill(this.reading, batch, limits))) await this.take(batch);
      await this.takeRest(batch);
    } catch (error) {
      // The first failure is told; the header is true as far as it can be.
      await this.close().catch(() => {});
      throw error;
    } finally {
      batch.release();
    }
    await this.close();
  }

  /** Adds the packets that were in the ring when the recording was aborted. */
  private async takeRest(batch: Batch): Promise<void> {
    let left = this.reader.slots;
    while (left > 0 && this.taken < this.bytesMax && this.file !== undefined) {
      const packet = this.reading.nextHeld();
      if (packet === undefined) return;
      batch.packets.push(packet);
      await this.take(batch);
      left -= 1;
    }
  }

  private async take(batch: Batch): Promise<void> {
    this.lastSoundMs = performance.now();
    for (const packet of batch.packets) await this.add(packet);
    await this.flush();
    batch.release();
  }

  private async add(packet: Packet): Promise<void> {
    // Frames that were lost before the recording began are no part of it.
    const droppedBefore = Math.min(packet.droppedBefore, Math.max(0, packet.position - this.firstPosition));
    this.summary.droppedFrames += droppedBefore;
    if (this.options.fillGaps !== false) {
      let left = droppedBefore * this.frameBytes;
      while (left > 0 && this.taken < this.bytesMax) {
        const piece = this.silence.subarray(0, Math.min(left, this.silence.length));
        await this.addBytes(piece);
        left -= piece.length;
      }
    }
    await this.addBytes(packet.bytes);
  }

  /** Puts bytes into the open file, and those beyond its end into the next one. */
  private async addBytes(bytes: Buffer): Promise<void> {
    let at = 0;
    while (at < bytes.length && this.taken < this.bytesMax) {
      if (this.takenOfFile === this.fileBytesMax) await this.roll();
      const room = Math.min(this.bytesMax - this.taken, this.fileBytesMax - this.takenOfFile);
      const piece = bytes.subarray(at, Math.min(bytes.length, at + room));
      this.pending.push(piece);
      this.pendingBytes += piece.length;
      this.taken += piece.length;
      this.takenOfFile += piece.length;
      at += piece.length;
      // The header is refreshed at least once for each second of sound.
      if (this.pendingBytes >= this.reader.format.sampleRate * this.frameBytes) await this.flush();
    }
  }

  private async flush(): Promise<void> {
    if (this.pending.length === 0) return;
    const { pending } = this;
    this.pending = [];
    this.pendingBytes = 0;
    await this.file?.append(pending);
  }

  private async roll(): Promise<void> {
    await this.flush();
    await this.close();
    await this.open();
  }

  private async open(): Promise<void> {
    const { target, reading } = this;
    this.files += 1;
    const path = this.options.roll === undefined ? this.path : nameOf(this.path, this.files, new Date());
    try {
      this.sink =
        typeof target === 'string'
          ? await openSink(path, () => reading.stopped)
          : new StreamSink(target, () => reading.stop());
    } catch (error) {
      throw fileError(error, path);
    }
    this.file = new WavFile(path, this.sink, this.reader.format);
    this.takenOfFile = 0;
    await this.file.begin();
  }

  /** Closes the open file; after a failure too, with the header that it allows. */
  private async close(): Promise<void> {
    const { file } = this;
    if (file === undefined) return;
    this.file = undefined;
    await file.close();
    this.sink = undefined;
    const { path, frames, bytes } = file;
    this.summary.frames += frames;
    this.summary.bytes += bytes;
    this.options.onFile?.({ path, frames, bytes });
  }

  /** Stops the recording when its `seconds` have passed and no sound comes. */
  private watchDeadline(): void {
    const { seconds = Infinity } = this.options;
    if (seconds === Infinity) return;
    const due = performance.now() + seconds * 1e3;
    const look = (): void => {
      const now = performance.now();
      const idleMs = this.reader.ring.isEmpty ? now - this.lastSoundMs : 0;
      const leftMs = Math.max(due - now, IDLE_MS - idleMs);
      if (leftMs <= 0) return this.reading.stop();
      this.deadline = setTimeout(look, Math.min(leftMs, TIMEOUT_MS_MAX));
    };
    look();
  }
}
