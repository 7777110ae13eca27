import './symbols';
import { once } from 'node:events';
import { parentPort } from 'node:worker_threads';
import { AudioError } from './error';
import { addon, type NativeWaiter } from './native';
import { checked } from './check';
import { otherVersion } from './packet';
import { statsOf } from './report';
import { RingReader } from './ring';
import type { AudioFormat, CaptureStats, ChannelPosition, Packet } from './types';

/** Version of the message below. */
const SHARED_VERSION = 2;

/** Memory of a capture for a Worker: post it as a message, or pass it as `workerData`. */
export interface SharedCapture {
  readonly steppeAudio: typeof SHARED_VERSION;
  readonly memory: SharedArrayBuffer;
  readonly tally: SharedArrayBuffer;
  readonly channelMap: readonly ChannelPosition[];
}

export function sharedOf(
  memory: SharedArrayBuffer,
  tally: Float64Array,
  channelMap: readonly ChannelPosition[],
): SharedCapture {
  return { steppeAudio: SHARED_VERSION, memory, tally: tally.buffer as SharedArrayBuffer, channelMap };
}

/** Longest wait in native code: a Worker that is terminated ends after it. */
const WAIT_MS = 100;

/**
 * Reads a capture in a Worker with blocking calls, without an event loop. It allocates nothing for a packet.
 */
export class AudioReader {
  /** Format of the packets. */
  readonly format: Readonly<Required<AudioFormat>>;
  private readonly reader: RingReader;
  private readonly waiter: NativeWaiter;
  private isClosed = false;

  constructor(shared: SharedCapture, options: { debug?: boolean } = {}) {
    const version: unknown = shared?.steppeAudio;
    if (typeof version !== 'number') {
      throw new AudioError('ERR_INVALID_OPTION', 'invalid option: not a value that share() returned');
    }
    if (version !== SHARED_VERSION) throw otherVersion(`shared message ${version}`, SHARED_VERSION);
    checked.reader(options);
    const mode = { debug: options.debug ?? process.env['STEPPE_AUDIO_DEBUG'] === '1', copy: false };
    this.reader = new RingReader(shared.memory, new Float64Array(shared.tally), mode);
    const { sampleRate, channels, sample } = this.reader.ring;
    this.format = { sampleRate, channels, sample, channelMap: shared.channelMap };
    this.waiter = new (addon().Waiter)(new Uint8Array(shared.memory));
  }

  /** In a Worker: waits for the message that `capture.share(worker)` posts. */
  static async receive(options: { debug?: boolean } = {}): Promise<AudioReader> {
    if (parentPort === null) {
      throw new AudioError('ERR_UNSUPPORTED', 'not supported here: AudioReader.receive() works only in a Worker');
    }
    for (;;) {
      const [message] = (await once(parentPort, 'message')) as [SharedCapture];
      if (typeof message?.steppeAudio === 'number') return new AudioReader(message, options);
    }
  }

  /** True once the capture has ended and all packets were read, or `close()` was called. */
  get ended(): boolean {
    return this.isClosed || (this.reader.isClosed && this.reader.isEmpty);
  }

  /** Ends reading: the capture's thread can read or share it again. A Worker that exits does the same. */
  close(): void {
    this.isClosed = true;
    this.reader.endLoan();
    this.waiter.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * Blocks until a packet arrives, and returns it. The packet is valid until the next call. Returns
   * `undefined` if the capture has ended, or after `timeoutMs`.
   */
  read(timeoutMs = Infinity): Packet | undefined {
    const { reader } = this;
    let leftMs = timeoutMs === Infinity ? WAIT_MS : timeoutMs;
    for (;;) {
      const packet = this.isClosed ? undefined : reader.take();
      if (packet !== undefined) return packet;
      if (this.ended || leftMs <= 0) return this.noNext();
      const slice = Math.min(leftMs, WAIT_MS);
      this.waiter.wait(reader.head >>> 0, slice);
      reader.noteWake();
      // Without an end there is always a slice left: to count from Infinity allocates a number.
      if (timeoutMs !== Infinity) leftMs -= slice;
    }
  }

  private noNext(): undefined {
    // A second time it finds nothing more.
    if (!this.isClosed && this.ended) this.reader.noteEnd();
  }

  /** Iterates over packets until the capture ends. Each is valid until the next one is requested. */
  *[Symbol.iterator](): Generator<Packet, void, undefined> {
    for (let packet = this.read(); packet !== undefined; packet = this.read()) yield packet;
  }

  /** Returns the statistics of the capture; `resamplerDelayMs` is 0 here. */
  stats(): CaptureStats {
    return statsOf(this.reader, 0);
  }
}
