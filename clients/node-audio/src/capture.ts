import './symbols';
import { EventEmitter } from 'node:events';
import type { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type { Worker } from 'node:worker_threads';
import { batches, type Batch } from './batches';
import { DeviceWatch, devices, processes } from './devices';
import { AudioError, toAudioError } from './error';
import { Control } from './layout';
import { addon, type NativeCapture, type NativeEvent } from './native';
import { resolve } from './options';
import { levelOf, statsOf } from './report';
import { RingReader } from './ring';
import { sharedOf, type SharedCapture } from './shared';
import { toReadable, toWeb } from './streams';
import { streamTo } from './stream-to';
import { Tally, TallyWord, TALLY_BYTES } from './tally';
import type {
  AudioDevice,
  AudioFormat,
  AudioProcess,
  BatchOptions,
  CaptureEvents,
  CaptureOptions,
  CaptureStats,
  Level,
  Packet,
  RecordOptions,
  StreamOptions,
  StreamSummary,
  WavSummary,
} from './types';
import { recordWav } from './wav';

type PacketListener = (packet: Packet) => void;

/** Packets that are given to listeners before the event loop has its turn: it must not starve. */
const PACKETS_A_TURN = 4_096;

/** How often a capture that a Worker reads looks for events, in ms: it has no doorbell then. */
const SHARED_LOOK_MS = 100;

/**
 * Captures sound from a device as packets, in memory that is allocated once.
 *
 * A capture has one reader at a time: `packet` listeners, a loop, a stream, a recording or a Worker.
 * Without a reader, packets wait in the ring, and the overrun policy applies when it is full.
 */
export class AudioCapture extends EventEmitter<CaptureEvents> {
  /** Format of the packets. With two sources side by side, `channels` counts those of both. */
  readonly format: Readonly<AudioFormat>;
  /** Frames of a full packet. */
  readonly packetFrames: number;
  /** ID and format of the device; set once `open` has resolved. */
  device: { id: string; format: AudioFormat } | undefined;

  private readonly reader: RingReader;
  private readonly native: NativeCapture;
  private readonly memory: SharedArrayBuffer;
  private readonly tally = new Float64Array(new SharedArrayBuffer(TALLY_BYTES));
  private readerName: string | undefined;
  private listenersOfPackets: PacketListener[] = [];
  private areListenersStale = false;
  private wake: (() => void) | undefined;
  /** What all who wait wait for. */
  private waking: Promise<void> | undefined;
  private isDrainDue = false;
  private hasEnded = false;
  private failure: AudioError | undefined;
  private droppedTold = 0;
  private gapsTold = 0;
  private delayFrames = 0;
  private sharing: NodeJS.Timeout | undefined;
  private opened: { resolve: () => void; reject: (error: Error) => void } | undefined;

  /** @internal */
  constructor(options: CaptureOptions) {
    super();
    const resolved = resolve(options);
    try {
      const { slots, slotBytes } = resolved.native;
      this.memory = new SharedArrayBuffer(addon().layout(slots, slotBytes).bytes);
      const bytes = new Uint8Array(this.memory);
      this.native = new (addon().Native)(resolved.native, bytes, () => this.onDoorbell());
    } catch (error) {
      throw toAudioError(error);
    }
    this.reader = new RingReader(this.memory, this.tally, resolved);
    const { sampleRate, channels, sample, packetFrames } = this.reader.ring;
    this.format = { sampleRate, channels, sample };
    this.packetFrames = packetFrames;
    const emitter: EventEmitter = this as EventEmitter;
    emitter.on('newListener', (name) => this.onListeners(name));
    emitter.on('removeListener', (name) => this.onListeners(name));
    options.signal?.addEventListener('abort', () => void this.close(), { once: true });
  }

  /**
   * Opens a device, and resolves when the capture has begun.
   *
   * @throws AudioError with the reason as its code.
   */
  static async open(options: CaptureOptions = {}): Promise<AudioCapture> {
    options.signal?.throwIfAborted();
    const capture = new AudioCapture(options);
    await new Promise<void>((resolve, reject) => {
      capture.opened = { resolve, reject };
      capture.native.start();
    });
    return capture;
  }

  /** Lists the devices that can be captured. */
  static devices(): Promise<AudioDevice[]> {
    return devices();
  }

  /** Lists the programs that play sound now. */
  static processes(): Promise<AudioProcess[]> {
    return processes();
  }

  /** Watches for devices that are added, removed or become the default, until it is closed. */
  static watch(): DeviceWatch {
    return new DeviceWatch();
  }

  /** True once the capture has ended. Packets in the ring can still be read. */
  get closed(): boolean {
    return this.hasEnded;
  }

  /** Omits sound until `resume()`. The device stays open; the next packet is a discontinuity. */
  pause(): void {
    this.native.pause();
  }

  /** Resumes the capture after `pause()`. */
  resume(): void {
    this.native.resume();
  }

  /** Makes the capture keep the process alive. This is the default. */
  ref(): this {
    this.native.ref();
    return this;
  }

  /** Allows the process to exit while the capture runs. */
  unref(): this {
    this.native.unref();
    return this;
  }

  /** Ends the capture. Retained packets stay valid, and packets in the ring can still be read. */
  async close(): Promise<void> {
    this.native.close();
    this.finish();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Returns peak and RMS of the last delivered packet. Native code computes them. */
  level(): Level {
    const floats = new Float32Array(this.tally.buffer);
    return levelOf(floats[TallyWord.peak] as number, floats[TallyWord.rms] as number);
  }

  /** Returns the statistics since the capture was opened. */
  stats(): CaptureStats {
    return statsOf(this.reader, this.delayFrames);
  }

  /** Iterates over packets. Each is valid until the next one is requested. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Packet, void, undefined> {
    const done = this.begin('a for await loop');
    try {
      for (;;) {
        const packet = this.next();
        if (packet !== undefined) yield packet;
        else if (!(await this.wait())) return;
      }
    } finally {
      done();
    }
  }

  /** Iterates over batches of packets: one promise for each batch, which is valid until the next one is requested. */
  batches(options: BatchOptions = {}): AsyncGenerator<Batch, void, undefined> {
    return batches(this, options);
  }

  /** Returns a stream of the packets' bytes. It copies, because a stream does not report when a chunk was read. */
  toReadable(): Readable {
    return toReadable(this);
  }

  /** Returns a web stream of the packets' bytes. It copies, because byte streams refuse shared memory. */
  toWeb(): ReadableStream<Uint8Array> {
    return toWeb(this);
  }

  /** Writes a WAV file until the capture ends, `seconds` have been written or `signal` is aborted. */
  recordWav(path: string, options: RecordOptions = {}): Promise<WavSummary> {
    return recordWav(this, path, options);
  }

  /** Sends packets to a server over HTTP/2. docs/stream.md specifies the frames. */
  streamTo(url: string | URL, options: StreamOptions = {}): Promise<StreamSummary> {
    return streamTo(this, url, options);
  }

  /**
   * Lets a Worker read the packets, with `AudioReader.receive()`. The Worker reads with blocking calls,
   * without an event loop or an allocation. Events are still emitted on this object.
   */
  share(worker?: Pick<Worker, 'postMessage'>): SharedCapture {
    this.begin('a Worker');
    const shared = sharedOf(this.memory, this.tally);
    worker?.postMessage(shared);
    // The doorbell stays rung, so that nothing wakes this thread for packets.
    this.sharing = setInterval(() => this.look(), SHARED_LOOK_MS);
    return shared;
  }

  /** @internal Begins to read; gives what ends it. */
  begin(name: string): () => void {
    if (this.readerName !== undefined) {
      const message = `the capture already has a reader (${this.readerName}): only one at a time is allowed`;
      throw new AudioError('ERR_BUSY', message);
    }
    this.readerName = name;
    return () => {
      this.reader.endLoan();
      if (this.readerName === name) this.readerName = undefined;
    };
  }

  /** @internal The next packet, on loan. */
  next(): Packet | undefined {
    return this.reader.take();
  }

  /** @internal The next packet, held until it is released. */
  nextHeld(): Packet | undefined {
    return this.reader.takeHeld();
  }

  /** @internal Waits for packets. False: there will be none. Rejects when the capture failed. */
  async wait(): Promise<boolean> {
    while (this.reader.isEmpty) {
      if (this.hasEnded) {
        if (this.failure !== undefined) throw this.failure;
        return false;
      }
      this.waking ??= new Promise<void>((resolve) => (this.wake = resolve));
      await this.waking;
    }
    return true;
  }

  /** @internal */
  countFallbackCopy(): void {
    this.reader.count(Tally.fallbackCopies, 1);
  }

  private onListeners(name: string | symbol): void {
    if (name !== 'packet') return;
    this.areListenersStale = true;
    this.scheduleDrain();
  }

  private scheduleDrain(): void {
    if (this.isDrainDue) return;
    this.isDrainDue = true;
    setImmediate(() => {
      this.isDrainDue = false;
      this.drain();
    });
  }

  private onDoorbell(): void {
    Atomics.store(this.reader.ring.words, Control.doorbell, 0);
    this.reader.noteWake();
    try {
      this.drain();
    } catch (error) {
      // Node-API only warns of what is thrown through it: a listener's error is to be seen.
      setImmediate(() => {
        throw error;
      });
    }
  }

  private drain(): void {
    if (this.areListenersStale) this.refreshListeners();
    if (this.listenersOfPackets.length > 0) this.emitPackets();
    this.look();
    this.wakeWaiting();
  }

  private wakeWaiting(): void {
    const { wake } = this;
    if (wake === undefined) return;
    this.wake = undefined;
    this.waking = undefined;
    wake();
  }

  private refreshListeners(): void {
    this.areListenersStale = false;
    const had = this.listenersOfPackets.length > 0;
    const listeners = this.rawListeners('packet') as PacketListener[];
    if (!had && listeners.length > 0) this.begin('packet listeners');
    if (had && listeners.length === 0) this.readerName = undefined;
    this.listenersOfPackets = listeners;
  }

  /** Calls listeners itself: `emit` makes an array for each packet. */
  private emitPackets(): void {
    const { reader, listenersOfPackets } = this;
    let left = PACKETS_A_TURN;
    try {
      for (let packet = this.next(); packet !== undefined; packet = this.next()) {
        for (let at = 0; at < listenersOfPackets.length; at += 1) {
          (listenersOfPackets[at] as PacketListener).call(this, packet);
        }
        left -= 1;
        if (left === 0 || this.areListenersStale) break;
      }
    } finally {
      reader.endLoan();
      if (!reader.isEmpty) this.scheduleDrain();
    }
  }

  /** Looks at what is there besides packets. */
  private look(): void {
    const { words } = this.reader.ring;
    const isClosed = this.reader.isClosed;
    const wasOpening = this.opened !== undefined;
    if (Atomics.exchange(words, Control.events, 0) !== 0) {
      for (const event of this.native.events()) this.onEvent(event);
    }
    this.tellOverrun();
    if (!isClosed || this.hasEnded) return;
    // Whoever awaits `open` gets to add listeners first.
    if (wasOpening && this.opened === undefined) return this.scheduleDrain();
    // Listeners get what waits before they get the end.
    if (this.listenersOfPackets.length > 0 && !this.reader.isEmpty) return this.scheduleDrain();
    this.native.close();
    this.finish();
  }

  private tellOverrun(): void {
    const gaps = this.reader.gaps;
    if (gaps === this.gapsTold) return;
    this.gapsTold = gaps;
    const framesTotal = this.tally[Tally.droppedFrames] as number;
    const frames = framesTotal - this.droppedTold;
    this.droppedTold = framesTotal;
    this.emit('overrun', { frames, framesTotal });
  }

  private onEvent(event: NativeEvent): void {
    const { kind, device, message, lostFrames } = event;
    const change = { deviceId: device, name: undefined };
    if (kind === 'open') {
      if (device !== undefined && event.format !== undefined) this.device = { id: device, format: event.format };
      this.delayFrames = event.delayFrames ?? 0;
      this.opened?.resolve();
      this.opened = undefined;
    } else if (kind === 'failed') {
      this.failure = toAudioError(event);
    } else if (kind === 'reconnecting' || kind === 'suspended') {
      this.emit('device', { kind: 'lost', ...change, message: message ?? 'the device is suspended' });
    } else if (kind === 'reconnected' || kind === 'resumed') {
      this.emit('device', { kind: 'restored', ...change, lostFrames: lostFrames ?? 0 });
    } else if (kind === 'permission-suspected') {
      this.emit('device', { kind, ...change, message: PERMISSION });
    } else if (kind === 'moved') {
      this.emit('device', { kind, ...change });
    }
  }

  /** A loop throws it; nobody dies of it. */
  private tellFailure(failure: AudioError): void {
    if (this.listenerCount('error') > 0) this.emit('error', failure);
    else if (this.listenersOfPackets.length > 0) process.emitWarning(failure);
  }

  private finish(): void {
    if (this.hasEnded) return;
    if (this.listenersOfPackets.length > 0) this.emitPackets();
    this.hasEnded = true;
    clearInterval(this.sharing);
    const { failure, opened } = this;
    this.opened = undefined;
    if (opened !== undefined) {
      opened.reject(failure ?? new AudioError('ERR_CLOSED', 'the capture was closed'));
    } else {
      if (failure !== undefined) this.tellFailure(failure);
      this.emit('end');
    }
    this.wakeWaiting();
  }
}

const PERMISSION =
  'all samples have been zero since the start, which suggests a missing permission: allow this program to use the microphone or to record system audio in the privacy settings';
