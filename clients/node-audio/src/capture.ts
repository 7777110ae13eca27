import './symbols';
import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { batches, type Batch } from './batches';
import { checked } from './check';
import { DeviceWatch, devices, processes } from './devices';
import { AudioError, toAudioError } from './error';
import { Control, Doorbell } from './layout';
import { addon, type NativeCapture, type NativeEvent } from './native';
import { resolve } from './options';
import { packets, PacketReader, type Reading } from './reader';
import { recordWav } from './recording';
import { levelOf, statsOf } from './report';
import { sharedOf, type SharedCapture } from './shared';
import { toReadable, toWeb } from './streams';
import { streamTo } from './stream-to';
import { Tally, TallyWord } from './tally';
import type {
  AudioDevice,
  AudioFormat,
  AudioProcess,
  BatchOptions,
  CaptureEvents,
  CaptureOptions,
  CaptureStart,
  CaptureStats,
  Level,
  Packet,
  RecordOptions,
  StreamOptions,
  StreamSummary,
  WavSummary,
} from './types';

type PacketListener = (packet: Packet) => void;

/** The part of a Worker that `share()` uses; a `MessagePort` has it too. */
export interface Shareable {
  postMessage(message: SharedCapture): void;
  once?(event: 'exit', listener: () => void): unknown;
}

/** Packets that are given to listeners before the event loop has its turn: it must not starve. */
const PACKETS_A_TURN = 4_096;

/** Interval at which a capture that a Worker reads looks for overruns, in ms: packets do not wake it then. */
const SHARED_LOOK_MS = 500;

/**
 * Captures sound from a device as packets, in memory that is allocated once.
 *
 * A capture has one reader at a time: `packet` listeners, a loop, a stream, a recording or a Worker.
 * Without a reader, packets wait in the ring, and the overrun policy applies when it is full.
 */
export class AudioCapture extends EventEmitter<CaptureEvents> {
  /** Format of the packets. With two sources side by side, `channels` counts those of both. */
  readonly format: Readonly<Required<AudioFormat>>;
  /** Frames of a full packet. */
  readonly packetFrames: number;
  /**
   * ID of the device, and the format in which it is captured; set once `open` has resolved. It is current when
   * a `device` event of the kind `moved` or `restored` is emitted.
   */
  device: { id: string; format: Required<AudioFormat> } | undefined;

  /** The asynchronous context that the capture was opened in, which listeners have. */
  private readonly context = new AsyncResource('AudioCapture');
  private readonly reader: PacketReader;
  private readonly native: NativeCapture;
  /** The reading of `packet` listeners. */
  private readonly listening: Reading;
  private listenersOfPackets: PacketListener[] = [];
  private areListenersStale = false;
  private isDraining = false;
  private isDrainDue = false;
  /** An error of a listener that was not thrown yet. */
  private uncaught: { error: unknown } | undefined;
  private isReferenced = true;
  /** `close()` was called: the native thread has ended. */
  private isClosing = false;
  /** Events that had no listener yet: one may be added after the end. */
  private readonly untold: { failure: AudioError | undefined; isEnd: boolean } = { failure: undefined, isEnd: false };
  private failure: AudioError | undefined;
  private droppedTold = 0;
  private gapsTold = 0;
  private delayFrames = 0;
  /** Events that were fetched and not told yet. */
  private readonly events: NativeEvent[] = [];
  private sharing: { reading: Reading; timer: NodeJS.Timeout; readersBefore: number } | undefined;
  private opened: { resolve: () => void; reject: (error: Error) => void } | undefined;
  /** Removes the listener of `signal`. */
  private detach: () => void = () => {};
  private readonly ended: Promise<void>;
  private resolveEnded: () => void = () => {};

  /** @internal Options are checked by `open`. */
  constructor(options: CaptureOptions) {
    super();
    const resolved = resolve(options);
    let memory: SharedArrayBuffer;
    try {
      const { slots, slotBytes } = resolved.native;
      memory = new SharedArrayBuffer(addon().layout(slots, slotBytes).bytes);
      this.native = new (addon().Native)(resolved.native, new Uint8Array(memory), () => this.onDoorbell());
    } catch (error) {
      throw toAudioError(error);
    }
    this.reader = new PacketReader(memory, resolved, this.native.channelMap());
    this.format = this.reader.format;
    this.packetFrames = this.reader.packetFrames;
    this.listening = this.reader.reading('packet listeners');
    this.reader.onEndNoted = () => this.scheduleDrain();
    this.ended = new Promise((resolve) => (this.resolveEnded = resolve));
    this.watchListeners();
    const { signal } = options;
    if (signal === undefined) return;
    const abort = (): void => void this.close();
    signal.addEventListener('abort', abort, { once: true });
    // A signal that lives longer would keep the capture.
    this.detach = () => signal.removeEventListener('abort', abort);
  }

  /**
   * Opens a device, and resolves when the capture has begun.
   *
   * @throws AudioError with the reason as its code.
   */
  static async open(options: CaptureOptions = {}): Promise<AudioCapture> {
    checked.capture(options).signal?.throwIfAborted();
    const capture = new AudioCapture(options);
    try {
      await new Promise<void>((resolve, reject) => {
        capture.opened = { resolve, reject };
        capture.native.start();
      });
    } catch (error) {
      capture.detach();
      // The native part would keep the process alive.
      capture.native.close();
      throw toAudioError(error);
    }
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
    return this.reader.ended;
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
    this.isReferenced = true;
    this.native.ref();
    this.sharing?.timer.ref();
    return this;
  }

  /** Allows the process to exit while the capture runs. */
  unref(): this {
    this.isReferenced = false;
    this.native.unref();
    this.sharing?.timer.unref();
    return this;
  }

  /**
   * Ends the capture, and resolves when it has ended. `packet` listeners get the packets in the ring, then `end`
   * is emitted. Retained packets stay valid, and packets in the ring can still be read.
   */
  async close(): Promise<void> {
    if (!this.reader.ended) {
      this.fetchEvents();
      this.native.close();
      this.isClosing = true;
      this.drainSafely();
    }
    await this.ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Returns peak and RMS of the last delivered packet. Native code computes them. */
  level(): Level {
    const floats = new Float32Array(this.reader.tally.buffer);
    return levelOf(floats[TallyWord.peak] as number, floats[TallyWord.rms] as number);
  }

  /**
   * Beginning of the capture; `undefined` before its first frame. What was played or spoken before it is no part of the
   * capture, and what is lost after it is reported. `open` resolves earlier: by some ms, and on PipeWire by 10 to 30 ms
   * more, since that server connects a capture to the device only after it has told that it is open.
   */
  get startedAt(): CaptureStart | undefined {
    const { ring } = this.reader.ring;
    const timeNs = ring.counter('startedNs');
    if (timeNs === 0) return undefined;
    return { timeNs, wallTimeMs: (timeNs + ring.counter('wallOffsetNs')) / 1e6 };
  }

  /** Returns the statistics since the capture was opened. */
  stats(): CaptureStats {
    return statsOf(this.reader.ring, this.delayFrames);
  }

  /** Iterates over packets. Each is valid until the next one is requested. */
  [Symbol.asyncIterator](): AsyncGenerator<Packet, void, undefined> {
    return packets(this.reader);
  }

  /** Iterates over batches of packets: one promise for each batch, which is valid until the next one is requested. */
  batches(options: BatchOptions = {}): AsyncGenerator<Batch, void, undefined> {
    return batches(this.reader, options);
  }

  /** Returns a stream of the packets' bytes. It copies, because a stream does not report when a chunk was read. */
  toReadable(): Readable {
    return toReadable(this.reader);
  }

  /** Returns a web stream of the packets' bytes. It copies, because byte streams refuse shared memory. */
  toWeb(): ReadableStream<Uint8Array> {
    return toWeb(this.reader);
  }

  /**
   * Writes WAV files until the capture ends, `seconds` have been written or `signal` is aborted. The header is
   * true after each write. A pipe or a stream gets a header without sizes.
   */
  recordWav(target: string | Writable, options: RecordOptions = {}): Promise<WavSummary> {
    return recordWav(this.reader, target, options);
  }

  /** Sends packets to a server over HTTP/2. docs/stream.md specifies the frames. */
  streamTo(url: string | URL, options: StreamOptions = {}): Promise<StreamSummary> {
    return streamTo(this.reader, url, options);
  }

  /**
   * Lets a Worker read the packets, with `AudioReader.receive()`. The Worker reads with blocking calls,
   * without an event loop or an allocation. Events are still emitted on this object. When the Worker's
   * `AudioReader` is closed or the Worker exits, the capture can be read here again.
   */
  share(worker?: Shareable): SharedCapture {
    const reading = this.reader.reading('a Worker');
    reading.begin();
    const readersBefore = this.reader.ring.readersBegun;
    const shared = sharedOf(this.reader.memory, this.reader.tally, this.format.channelMap);
    worker?.postMessage(shared);
    if (this.reader.ended) {
      // Packets that wait are the Worker's; the timer keeps no process alive for them.
      const timer = setInterval(() => this.drainSafely(), SHARED_LOOK_MS).unref();
      this.sharing = { reading, timer, readersBefore };
      return shared;
    }
    // From now on, nothing wakes this thread for packets.
    Atomics.store(this.reader.ring.ring.words, Control.doorbell, Doorbell.events);
    const timer = setInterval(() => this.drainSafely(), SHARED_LOOK_MS);
    if (!this.isReferenced) timer.unref();
    this.sharing = { reading, timer, readersBefore };
    worker?.once?.('exit', () => {
      if (this.sharing?.reading === reading && this.reader.ring.haveReadersEnded) this.unshare();
    });
    return shared;
  }

  /** Takes the capture back when the reader in the Worker has come and gone. */
  private watchShared(): void {
    const { ring } = this.reader;
    const { sharing } = this;
    const hasHadReader = sharing !== undefined && ring.readersBegun !== sharing.readersBefore;
    if (hasHadReader && ring.haveReadersEnded) this.unshare();
  }

  private unshare(): void {
    const { sharing, reader } = this;
    if (sharing === undefined) return;
    this.sharing = undefined;
    clearInterval(sharing.timer);
    reader.ring.reclaim();
    sharing.reading.end();
    Atomics.store(reader.ring.ring.words, Control.doorbell, Doorbell.silent);
    this.scheduleDrain();
  }

  /** Removes listeners, as those of any emitter. */
  override removeAllListeners(name?: string | symbol): this {
    if (name !== undefined) return super.removeAllListeners(name as keyof CaptureEvents);
    super.removeAllListeners();
    this.watchListeners();
    this.onListenerRemoved('packet');
    return this;
  }

  private watchListeners(): void {
    const emitter: EventEmitter = this as EventEmitter;
    emitter.on('newListener', (name) => this.onListenerAdded(name));
    emitter.on('removeListener', (name) => this.onListenerRemoved(name));
  }

  /** @throws `ERR_BUSY` if the first listener of packets finds another reader. */
  private onListenerAdded(name: string | symbol): void {
    if (name === 'packet') {
      this.listening.begin();
      this.areListenersStale = true;
      this.scheduleDrain();
    } else if ((name === 'end' || name === 'error') && this.reader.ended) {
      this.scheduleDrain();
    }
  }

  private onListenerRemoved(name: string | symbol): void {
    if (name !== 'packet') return;
    this.areListenersStale = true;
    // A packet that is on loan to the listener is so until it returns.
    if (!this.isDraining) this.refreshListeners();
  }

  private scheduleDrain(): void {
    if (this.isDrainDue) return;
    this.isDrainDue = true;
    setImmediate(() => {
      this.isDrainDue = false;
      const { uncaught } = this;
      if (uncaught !== undefined) {
        this.uncaught = undefined;
        this.scheduleDrain();
        throw uncaught.error;
      }
      // The context of a listener is that of the opener, not of the call that added it.
      this.context.runInAsyncScope(this.drainSafely, this);
    });
  }

  private onDoorbell(): void {
    if (this.sharing === undefined) Atomics.store(this.reader.ring.ring.words, Control.doorbell, Doorbell.silent);
    this.reader.ring.noteWake();
    this.drainSafely();
  }

  /**
   * Drains; what a listener throws is an uncaught exception, which Node-API would only warn of. It comes before later
   * packets and the end, and after what the listener has queued.
   */
  private drainSafely(): void {
    try {
      this.drain();
    } catch (error) {
      this.uncaught = { error };
      this.scheduleDrain();
    }
  }

  /** Delivers packets and events. A listener that gets here again, by `close()`, is followed by another drain. */
  private drain(): void {
    if (this.isDraining || this.uncaught !== undefined) return this.scheduleDrain();
    this.isDraining = true;
    try {
      if (this.areListenersStale) this.refreshListeners();
      if (this.listenersOfPackets.length > 0) this.emitPackets();
      this.look();
    } finally {
      this.isDraining = false;
      this.reader.wake();
    }
  }

  private refreshListeners(): void {
    this.areListenersStale = false;
    this.listenersOfPackets = this.rawListeners('packet') as PacketListener[];
    if (this.listenersOfPackets.length === 0) this.listening.end();
  }

  /** Calls listeners itself: `emit` makes an array for each packet. */
  private emitPackets(): void {
    const { listening, listenersOfPackets } = this;
    const { ring } = this.reader;
    let left = PACKETS_A_TURN;
    try {
      for (let packet = listening.next(); packet !== undefined; packet = listening.next()) {
        for (let at = 0; at < listenersOfPackets.length; at += 1) {
          (listenersOfPackets[at] as PacketListener).call(this, packet);
        }
        left -= 1;
        if (left === 0 || this.areListenersStale) break;
      }
    } finally {
      ring.endLoan();
      if (this.areListenersStale) this.refreshListeners();
      if (!ring.isEmpty) this.scheduleDrain();
    }
  }

  /** Handles events, losses and the end. */
  private look(): void {
    const { reader } = this;
    const isClosed = this.isClosing || reader.ring.isClosed;
    const wasOpening = this.opened !== undefined;
    this.fetchEvents();
    this.tellOverrun();
    this.watchShared();
    if (!reader.ended) {
      if (!isClosed) return;
      // The caller that awaits `open` can add listeners first.
      if (wasOpening && this.opened === undefined) return this.scheduleDrain();
      // Listeners get what waits before they get the end.
      if (this.listenersOfPackets.length > 0 && !reader.ring.isEmpty) return this.scheduleDrain();
      this.native.close();
      this.finish();
    }
    this.tellEnd();
  }

  /** Tells events. A listener that throws does not lose those behind the one that it was given. */
  private fetchEvents(): void {
    const { events, native, reader } = this;
    if (Atomics.exchange(reader.ring.ring.words, Control.events, 0) !== 0) events.push(...native.events());
    for (let event = events.shift(); event !== undefined; event = events.shift()) this.onEvent(event);
  }

  private tellOverrun(): void {
    const { gaps } = this.reader.ring;
    if (gaps === this.gapsTold) return;
    this.gapsTold = gaps;
    const framesTotal = this.reader.tally[Tally.droppedFrames] as number;
    const frames = framesTotal - this.droppedTold;
    this.droppedTold = framesTotal;
    const framesEstimated = this.reader.tally[Tally.estimatedFrames] as number;
    this.emit('overrun', { frames, framesTotal, framesEstimated });
  }

  private onEvent(event: NativeEvent): void {
    const { kind, device, message, lostFrames } = event;
    const change = { deviceId: device, name: undefined };
    if (kind === 'open') {
      this.noteDevice(event);
      this.opened?.resolve();
      this.opened = undefined;
    } else if (kind === 'failed') {
      this.failure = toAudioError(event);
    } else if (kind === 'reconnecting' || kind === 'suspended') {
      this.emit('device', { kind: 'lost', ...change, message: message ?? 'the device is suspended' });
    } else if (kind === 'reconnected' || kind === 'resumed') {
      this.noteDevice(event);
      this.emit('device', { kind: 'restored', ...change, lostFrames: lostFrames ?? 0 });
    } else if (kind === 'permission-suspected') {
      this.emit('device', { kind, ...change, message: PERMISSION });
    } else if (kind === 'moved') {
      this.noteDevice(event);
      this.emit('device', { kind, ...change });
    }
  }

  /** Notes what an event says of the device: its id, or its format alone where it is the same one. */
  private noteDevice({ device, format, delayFrames }: NativeEvent): void {
    const now = { id: device ?? this.device?.id, format: format ?? this.device?.format };
    if (now.id !== undefined && now.format !== undefined) this.device = { id: now.id, format: now.format };
    this.delayFrames = delayFrames ?? this.delayFrames;
  }

  private finish(): void {
    const { failure, opened } = this;
    this.opened = undefined;
    this.detach();
    this.reader.finish(failure);
    // While a Worker reads the rest, the timer looks for its end.
    if (this.reader.ring.haveReadersEnded) clearInterval(this.sharing?.timer);
    else this.sharing?.timer.unref();
    if (opened !== undefined) {
      opened.reject(failure ?? new AudioError('ERR_CLOSED', 'the capture was closed'));
    } else {
      this.untold.failure = failure;
      this.untold.isEnd = true;
    }
    this.resolveEnded();
  }

  /** Emits `error` and `end`, each when it has a listener and packets of the ring went before. */
  private tellEnd(): void {
    const { untold } = this;
    const hasPacketListeners = this.listenersOfPackets.length > 0;
    if (hasPacketListeners && !this.reader.ring.isEmpty) return this.scheduleDrain();
    if (this.sharing === undefined) this.reader.noteEnd();
    this.tellOverrun();
    const { failure } = untold;
    if (failure !== undefined && this.listenerCount('error') > 0) {
      untold.failure = undefined;
      this.emit('error', failure);
    } else if (failure !== undefined && hasPacketListeners) {
      // A loop throws it; no process ends by it.
      untold.failure = undefined;
      process.emitWarning(failure);
    }
    if (!untold.isEnd || this.listenerCount('end') === 0) return;
    untold.isEnd = false;
    this.emit('end');
  }
}

const PERMISSION =
  'all samples have been zero since the start, which suggests a missing permission: allow this program to use the microphone or to record system audio in the privacy settings';
