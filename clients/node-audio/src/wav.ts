import { fileError } from './error';
import { SAMPLE_BYTES } from './layout';
import type { Sink } from './sink';
import type { AudioFormat, ChannelPosition, SampleFormat } from './types';

/** Format tags of RIFF: PCM, IEEE float, µ-law. */
const TAGS: Record<SampleFormat, number> = { s16: 1, f32: 3, mulaw: 7 };

/** Bytes before the samples of up to two channels: RIFF, JUNK or ds64, fmt, fact, data. */
export const HEADER_BYTES = 12 + 36 + 26 + 12 + 8;

/** Bytes that WAVE_FORMAT_EXTENSIBLE adds to the chunk `fmt `: bits of a sample, channel mask and GUID of the sample format. */
const EXTENSION_BYTES = 22;

/** The tag of WAVE_FORMAT_EXTENSIBLE. */
const EXTENSIBLE = 0xfffe;

/** The GUID of a sample format after its tag: KSDATAFORMAT_SUBTYPE_PCM and its fellows. */
const SUBTYPE = Buffer.from('000000001000800000aa00389b71', 'hex');

/** Positions by their bit in a channel mask, in whose order files have them. `undefined`: none of ours. */
const MASK: readonly (ChannelPosition | undefined)[] = [
  'front-left',
  'front-right',
  'front-center',
  'lfe',
  'rear-left',
  'rear-right',
  'front-left-of-center',
  'front-right-of-center',
  'rear-center',
  'side-left',
  'side-right',
  'top-center',
  'top-front-left',
  'top-front-center',
  'top-front-right',
  'top-rear-left',
  'top-rear-center',
  'top-rear-right',
];

/** The mask of channels that are in the order of WAVE files; 0, which says nothing of positions, for others. */
export function maskOf(map: readonly ChannelPosition[]): number {
  const bits = map.map((position) => MASK.indexOf(position));
  const isInOrder = bits.every((bit, at) => bit > (at === 0 ? -1 : (bits[at - 1] as number)));
  return isInOrder ? bits.reduce((mask, bit) => mask | (1 << bit), 0) : 0;
}

/** Bytes before the samples of a file. */
export function headerBytesOf({ channels }: AudioFormat): number {
  return HEADER_BYTES + (channels > 2 ? EXTENSION_BYTES : 0);
}

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
 * file. More than two channels are WAVE_FORMAT_EXTENSIBLE, with a mask of their positions: players take four and five
 * channels for what they like without one.
 */
export function wavHeader(format: AudioFormat, dataBytes: number | undefined): Buffer {
  const headerBytes = headerBytesOf(format);
  const head = Buffer.alloc(headerBytes);
  const frameBytes = frameBytesOf(format);
  const bytes = dataBytes ?? 0;
  const riffBytes = headerBytes - 8 + bytes + (bytes % 2);
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
  const extra = headerBytes - HEADER_BYTES;
  head.writeUInt32LE(18 + extra, 52);
  head.writeUInt16LE(extra > 0 ? EXTENSIBLE : TAGS[format.sample], 56);
  head.writeUInt16LE(format.channels, 58);
  head.writeUInt32LE(format.sampleRate, 60);
  head.writeUInt32LE(format.sampleRate * frameBytes, 64);
  head.writeUInt16LE(frameBytes, 68);
  head.writeUInt16LE(SAMPLE_BYTES[format.sample] * 8, 70);
  if (extra > 0) {
    head.writeUInt16LE(extra, 72);
    head.writeUInt16LE(SAMPLE_BYTES[format.sample] * 8, 74);
    head.writeUInt32LE(maskOf(format.channelMap ?? []), 76);
    head.writeUInt16LE(TAGS[format.sample], 80);
    SUBTYPE.copy(head, 82);
  }
  head.write('fact', 74 + extra, 'latin1');
  head.writeUInt32LE(4, 78 + extra);
  head.writeUInt32LE(narrow(bytes / frameBytes), 82 + extra);
  head.write('data', 86 + extra, 'latin1');
  head.writeUInt32LE(narrow(bytes), 90 + extra);
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
    return headerBytesOf(this.format) + this.dataBytes;
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
