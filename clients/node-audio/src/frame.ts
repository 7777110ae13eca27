import type { Packet } from './types';

/** Bytes before the samples of a packet in a stream: docs/stream.md draws them. */
export const FRAME_HEADER_BYTES = 48;

const FLAGS = ['silent', 'discontinuity', 'timeEstimated', 'voiceBegins', 'droppedEstimated'] as const;

/** Header of a packet in a stream. */
export interface FrameHeader {
  bytes: number;
  frames: number;
  sequence: number;
  position: number;
  timeNs: number;
  droppedBefore: number;
  flags: number;
}

/** Writes a packet's header into 48 bytes. */
export function writeHeader(target: Buffer, packet: Packet): void {
  const flags = FLAGS.reduce((bits, name, bit) => bits | (packet[name] ? 1 << bit : 0), 0);
  target.writeUInt32LE(packet.bytes.length, 0);
  target.writeUInt32LE(packet.frames, 4);
  writeWide(target, packet.sequence, 8);
  writeWide(target, packet.position, 16);
  writeWide(target, packet.timeNs, 24);
  writeWide(target, packet.droppedBefore, 32);
  target.writeUInt32LE(flags, 40);
  target.writeUInt32LE(0, 44);
}

export function readHeader(source: Buffer): FrameHeader {
  return {
    bytes: source.readUInt32LE(0),
    frames: source.readUInt32LE(4),
    sequence: readWide(source, 8),
    position: readWide(source, 16),
    timeNs: readWide(source, 24),
    droppedBefore: readWide(source, 32),
    flags: source.readUInt32LE(40),
  };
}

/** A received frame of a stream: header and samples. */
export interface StreamFrame extends FrameHeader {
  samples: Buffer;
}

/** Largest packet that a decoder accepts; a larger length is not a stream of this package. */
const FRAME_BYTES_MAX = 16 << 20;

/** Decodes frames from chunks of any size. */
export class FrameDecoder {
  private rest: Buffer = Buffer.alloc(0);

  /** Adds a chunk, and yields the frames that it completes. */
  *push(chunk: Buffer): Generator<StreamFrame, void, undefined> {
    this.rest = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    while (this.rest.length >= FRAME_HEADER_BYTES) {
      const header = readHeader(this.rest);
      if (header.bytes > FRAME_BYTES_MAX) {
        throw new RangeError(`a frame of ${header.bytes} bytes; at most ${FRAME_BYTES_MAX} are allowed`);
      }
      const end = FRAME_HEADER_BYTES + header.bytes;
      if (this.rest.length < end) return;
      const samples = this.rest.subarray(FRAME_HEADER_BYTES, end);
      this.rest = this.rest.subarray(end);
      yield { ...header, samples };
    }
  }

  /** True if the last frame is incomplete. */
  get isCut(): boolean {
    return this.rest.length > 0;
  }
}

function writeWide(target: Buffer, value: number, at: number): void {
  target.writeUInt32LE(value >>> 0, at);
  target.writeUInt32LE(Math.floor(value / 0x1_0000_0000), at + 4);
}

function readWide(source: Buffer, at: number): number {
  return source.readUInt32LE(at) + source.readUInt32LE(at + 4) * 0x1_0000_0000;
}
