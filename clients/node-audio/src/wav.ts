import { open, type FileHandle } from 'node:fs/promises';
import type { AudioCapture } from './capture';
import { SAMPLE_BYTES } from './layout';
import type { AudioFormat, Packet, RecordOptions, SampleFormat, WavSummary } from './types';

/** Format tags of RIFF: PCM, IEEE float, µ-law. */
const TAGS: Record<SampleFormat, number> = { s16: 1, f32: 3, mulaw: 7 };

/** Bytes before the samples: RIFF, JUNK or ds64, fmt, fact, data. */
export const HEADER_BYTES = 12 + 36 + 26 + 12 + 8;

/**
 * The head of a WAV file. Past 4 GiB it is an RF64 file (EBU Tech 3306): the chunk that is `JUNK` in
 * a smaller one has the sizes.
 */
export function wavHeader({ sampleRate, channels, sample }: AudioFormat, dataBytes: number): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  const frameBytes = channels * SAMPLE_BYTES[sample];
  const riffBytes = HEADER_BYTES - 8 + dataBytes + (dataBytes % 2);
  const isLarge = riffBytes > 0xffff_ffff;
  const narrow = (size: number): number => (isLarge ? 0xffff_ffff : size);
  head.write(isLarge ? 'RF64' : 'RIFF', 0, 'latin1');
  head.writeUInt32LE(narrow(riffBytes), 4);
  head.write(isLarge ? 'WAVEds64' : 'WAVEJUNK', 8, 'latin1');
  head.writeUInt32LE(28, 16);
  if (isLarge) {
    head.writeBigUInt64LE(BigInt(riffBytes), 20);
    head.writeBigUInt64LE(BigInt(dataBytes), 28);
    head.writeBigUInt64LE(BigInt(dataBytes / frameBytes), 36);
  }
  head.write('fmt ', 48, 'latin1');
  head.writeUInt32LE(18, 52);
  head.writeUInt16LE(TAGS[sample], 56);
  head.writeUInt16LE(channels, 58);
  head.writeUInt32LE(sampleRate, 60);
  head.writeUInt32LE(sampleRate * frameBytes, 64);
  head.writeUInt16LE(frameBytes, 68);
  head.writeUInt16LE(SAMPLE_BYTES[sample] * 8, 70);
  head.write('fact', 74, 'latin1');
  head.writeUInt32LE(4, 78);
  head.writeUInt32LE(narrow(dataBytes / frameBytes), 82);
  head.write('data', 86, 'latin1');
  head.writeUInt32LE(narrow(dataBytes), 90);
  return head;
}

/** A long gap is filled by pieces of so many bytes. */
const FILL_BYTES = 64 << 10;

class WavFile {
  frames = 0;
  dataBytes = 0;
  droppedFrames = 0;

  constructor(
    private readonly handle: FileHandle,
    private readonly format: AudioFormat,
    private readonly doesFillGaps: boolean,
  ) {}

  /** Writes slots in place; the loan ends when they are on their way to the disk. */
  async write(packets: readonly Packet[], framesMax: number): Promise<void> {
    for (const packet of packets) {
      this.droppedFrames += packet.droppedBefore;
      if (this.doesFillGaps) await this.silence(Math.min(packet.droppedBefore, framesMax - this.frames));
      const frames = Math.min(packet.frames, framesMax - this.frames);
      await this.bytes(packet.bytes.subarray(0, frames * this.frameBytes));
      this.frames += frames;
    }
  }

  async finish(): Promise<void> {
    // A chunk has an even number of bytes.
    if (this.dataBytes % 2 === 1) await this.handle.write(Buffer.alloc(1), 0, 1, HEADER_BYTES + this.dataBytes);
    await this.handle.write(wavHeader(this.format, this.dataBytes), 0, HEADER_BYTES, 0);
  }

  private get frameBytes(): number {
    return this.format.channels * SAMPLE_BYTES[this.format.sample];
  }

  private async silence(frames: number): Promise<void> {
    const piece = Buffer.alloc(FILL_BYTES - (FILL_BYTES % this.frameBytes), this.format.sample === 'mulaw' ? 0xff : 0);
    let left = frames * this.frameBytes;
    while (left > 0) {
      const now = piece.subarray(0, Math.min(left, piece.length));
      await this.bytes(now);
      left -= now.length;
    }
    this.frames += frames;
  }

  private async bytes(bytes: Buffer): Promise<void> {
    let at = 0;
    while (at < bytes.length) {
      const position = HEADER_BYTES + this.dataBytes + at;
      at += (await this.handle.write(bytes, at, bytes.length - at, position)).bytesWritten;
    }
    this.dataBytes += bytes.length;
  }
}

export async function recordWav(
  capture: AudioCapture,
  path: string,
  { seconds = Infinity, signal, fillGaps = true }: RecordOptions,
): Promise<WavSummary> {
  signal?.throwIfAborted();
  const framesMax = Math.round(seconds * capture.format.sampleRate);
  const handle = await open(path, 'w');
  try {
    const file = new WavFile(handle, capture.format, fillGaps);
    await handle.write(wavHeader(capture.format, 0), 0, HEADER_BYTES, 0);
    for await (const batch of capture.batches({ maxMs: 100 })) {
      await file.write(batch.packets, framesMax);
      if (file.frames >= framesMax || signal?.aborted === true) break;
    }
    await file.finish();
    const { frames, droppedFrames, dataBytes } = file;
    return { path, frames, droppedFrames, bytes: HEADER_BYTES + dataBytes };
  } finally {
    await handle.close();
  }
}
