import { fileError } from './error';
import { SAMPLE_BYTES } from './layout';
import type { Sink } from './sink';
import type { AudioFormat, SampleFormat } from './types';

/** Format tags of RIFF: PCM, IEEE float, µ-law. */
const TAGS: Record<SampleFormat, number> = { s16: 1, f32: 3, mulaw: 7 };

/** Bytes before the samples: RIFF, JUNK or ds64, fmt, fact, data. */
export const HEADER_BYTES = 12 + 36 + 26 + 12 + 8;

/** Size of a chunk whose end is that of the stream. */
const UNKNOWN = 0xffff_ffff;

/** Bytes of a frame. */
export function frameBytesOf({ channels, sample }: AudioFormat): number {
  return channels * SAMPLE_BYTES[sample];
}

/** Byte that silence is made of. */
export function silenceOf({ sample }: AudioFormat): number {
  return sample === 'mulaw' ? 0xff : 0;
}

/**
 * The head of a WAV file with so many bytes of samples; `undefined` if the number is unknown, as in a pipe. A
 * file above 4 GiB is an RF64 file (EBU Tech 3306): the chunk `ds64` has its sizes, which is `JUNK` in a smaller
 * file.
 */
export function wavHeader(format: AudioFormat, dataBytes: number | undefined): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  const frameBytes = frameBytesOf(format);
  const bytes = dataBytes ?? 0;
  const riffBytes = HEADER_BYTES - 8 + bytes + (bytes % 2);
  const isLarge = riffBytes >= UNKNOWN;
  const narrow = (size: number): number => (isLarge || dataBytes === undefined ? UNKNOWN : size);
  head.write(isLarge ? 'RF64' : 'RIFF', 0, 'latin1');
  head.writeUInt32LE(narrow(riffBytes), 4);
  head.write(isLarge ? 'WAVEds64' : 'WAVEJUNK', 8, 'latin1');
  head.writeUInt32LE(28, 16);
  if (isLarge) {
    head.writeBigUInt64LE(BigInt(riffBytes), 20);
    head.writeBigUInt64LE(BigInt(bytes), 28);
    head.writeBigUInt64LE(BigInt(bytes / frameBytes), 36);
  }
  head.write('fmt ', 48, 'latin1');
  head.writeUInt32LE(18, 52);
  head.writeUInt16LE(TAGS[format.sample], 56);
  head.writeUInt16LE(format.channels, 58);
  head.writeUInt32LE(format.sampleRate, 60);
  head.writeUInt32LE(format.sampleRate * frameBytes, 64);
  head.writeUInt16LE(frameBytes, 68);
  head.writeUInt16LE(SAMPLE_BYTES[format.sample] * 8, 70);
  head.write('fact', 74, 'latin1');
  head.writeUInt32LE(4, 78);
  head.writeUInt32LE(narrow(bytes / frameBytes), 82);
  head.write('data', 86, 'latin1');
  head.writeUInt32LE(narrow(bytes), 90);
  return head;
}

/**
 * A WAV file that is readable at every moment: its header follows each write. Whatever ends the process leaves a
 * file that lacks at most the bytes of one `append`.
 */
export class WavFile {
  private writtenBytes = 0;

  constructor(
    readonly path: string,
    private readonly sink: Sink,
    private readonly format: AudioFormat,
  ) {}

  /** Whole frames that were written. */
  get frames(): number {
    return Math.floor(this.writtenBytes / frameBytesOf(this.format));
  }

  /** Size of the file, once it is closed. */
  get bytes(): number {
    return HEADER_BYTES + this.dataBytes;
  }

  private get dataBytes(): number {
    return this.frames * frameBytesOf(this.format);
  }

  /** Writes the first header. */
  async begin(): Promise<void> {
    const { sink, format } = this;
    await this.attempt(() => sink.append([wavHeader(format, sink.isSeekable ? 0 : undefined)], () => {}));
  }

  /** Writes samples, then the header that includes them. */
  async append(buffers: readonly Buffer[]): Promise<void> {
    await this.attempt(() => this.sink.append(buffers, (bytes) => (this.writtenBytes += bytes)));
    await this.refresh();
  }

  /** Completes and closes the file, after a failed write too. */
  async close(): Promise<void> {
    try {
      await this.refresh();
      // A chunk has an even number of bytes; a full disk that has no room for the last one harms no reader.
      if (this.dataBytes % 2 === 1) await this.sink.append([Buffer.alloc(1)], () => {}).catch(() => {});
    } finally {
      await this.attempt(() => this.sink.close());
    }
  }

  private async refresh(): Promise<void> {
    if (!this.sink.isSeekable) return;
    await this.attempt(() => this.sink.overwrite(wavHeader(this.format, this.dataBytes)));
  }

  private async attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      const seconds = (this.frames / this.format.sampleRate).toFixed(1);
      throw fileError(error, this.path, `${seconds} s were written${this.sink.isSeekable ? ' and can be read' : ''}`);
    }
  }
}
