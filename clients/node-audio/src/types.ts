/**
 * The public types of @steppe/audio: what a capture is asked for, and what it gives.
 *
 * Units stand in names: `Ms`, `Ns`, `Bytes`. A frame is one sample of every channel; a packet is a
 * fixed number of frames; a slot is the memory of one packet in the ring.
 */

/** Encoding of one sample: signed 16-bit integers, 32-bit floats in ±1, or 8-bit µ-law (G.711). */
export type SampleFormat = 's16' | 'f32' | 'mulaw';

/** What packets carry. The device is opened in this format, or its sound is converted to it. */
export interface AudioFormat {
  /** Frames a second: 4,000 to 384,000. */
  sampleRate: number;
  /** Interleaved channels: 1 to 32. With two sources side by side: the channels of each of them. */
  channels: number;
  sample: SampleFormat;
}

/**
 * Where sound comes from.
 * - `input`: a microphone or line input.
 * - `loopback`: what the machine plays, through the monitor of an output.
 * - `process`: what one program plays. PulseAudio and PipeWire, Windows, macOS 14.2 and later.
 * - `synthetic`: generated samples, without any device; see {@link SyntheticOptions}.
 */
export type SourceKind = 'input' | 'loopback' | 'process' | 'synthetic';

export interface Source {
  kind: SourceKind;
  /** An {@link AudioDevice.id}. The system's default device when absent. */
  deviceId?: string;
  /** Of `process`: the process whose sound is captured; see `AudioCapture.processes()`. */
  pid?: number;
  /** Of `synthetic`. */
  synthetic?: SyntheticOptions;
}

/** What a synthetic source generates, and how fast. */
export interface SyntheticOptions {
  /**
   * `tone`: a sine of `frequencyHz` at half of full scale. `probe`: samples that encode the number
   * of their frame, so that every lost frame can be counted: of `s16` the low 15 bits in the first
   * channel, the next 15 in the second; of `f32` the number modulo 2^24, over 2^24. `silence`: zeros.
   * `speech`: a second of noise and one of silence, which a gate tells apart. Default `tone`.
   */
  signal?: 'tone' | 'probe' | 'silence' | 'speech';
  /** Of `tone`: default 440. */
  frequencyHz?: number;
  /** How far the source's clock is off, in parts per million: default 0, at most ±10,000. */
  driftPpm?: number;
  /** `realtime` keeps pace with the format; `burst` generates as fast as slots are free. */
  pace?: 'realtime' | 'burst';
  /** Of `realtime`: a multiple of it, up to 10,000. Default 1. */
  speed?: number;
  /** The capture ends after so many packets. Default: never. */
  packets?: number;
  /** What the device gives, and is converted from. Default: what packets have. */
  format?: Partial<AudioFormat>;
}

/** Memory that the capture allocates once, when it opens. It never grows. */
export interface RingOptions {
  /** Packets that fit: 2 to 16,384. Default: as many as hold 2 s, at least 16. */
  slots?: number;
  /** Bytes of a slot, at least one packet. Default: one packet, rounded up to 64. */
  slotBytes?: number;
}

/** What happens to sound that finds no free slot. It is counted in every case. */
export type OverrunPolicy =
  /** The oldest packet that nobody holds gives way. */
  | 'drop-oldest'
  /** The new packet is lost. */
  | 'drop-newest'
  /** The capture ends with `ERR_OVERRUN`. */
  | 'error';

/** Lets packets with speech pass and leaves others out. They are counted as `gated`, not as lost. */
export interface GateOptions {
  /** Level above which a packet is speech, in dBFS of RMS: default −45; from −90 to 0. */
  thresholdDb?: number;
  /** How long the gate stays open after speech: default 300; 0 to 10,000. */
  hangoverMs?: number;
  /** Sound before speech that is let pass too: default 100; 0 to 1,000. */
  prerollMs?: number;
}

/** Formats that listeners want: see `PRESETS` for what each stands for. */
export type PresetName = 'openai-realtime' | 'whisper' | 'livekit' | 'telephony';

/** What `AudioCapture.open` takes. Everything has a default: `open()` captures the microphone. */
export interface CaptureOptions {
  /** Format and packet length of a known listener. `format` and `packetMs` override parts of it. */
  preset?: PresetName;
  /**
   * Default `{ kind: 'input' }`. Two sources are put on one clock, that of the first: the second
   * is resampled as its clock drifts.
   */
  source?: Source | readonly [Source, Source];
  /** How two sources are joined. Default `side-by-side`: first the channels of the first. */
  combine?: 'mix' | 'side-by-side';
  /** Default 48,000 Hz, 1 channel, `s16`. */
  format?: Partial<AudioFormat>;
  /** Length of a packet: 1 to 1,000, a whole number of frames. Default 10. */
  packetMs?: number;
  ring?: RingOptions;
  /** Default `drop-oldest`. */
  overrun?: OverrunPolicy;
  /** Whether packets that are silent throughout are given (`emit`, the default) or left out. */
  silence?: 'emit' | 'skip';
  /**
   * `zero-copy` (the default): packets are views of the ring, to be released. `copy`: each packet
   * has memory of its own, and may be kept without care.
   */
  mode?: 'zero-copy' | 'copy';
  /** What happens when the device can't give `format`: it is converted (default), or refused. */
  convert?: 'allow' | 'refuse';
  /** Leaves out packets without speech: `true` stands for the defaults. Default: no gate. */
  gate?: boolean | GateOptions;
  /**
   * Each packet is an object of its own, released slots are overwritten, and whoever uses a packet
   * after its release gets `ERR_PACKET_RELEASED`. Allocates. Default: the environment variable
   * `STEPPE_AUDIO_DEBUG` is `1`.
   */
  debug?: boolean;
  /** Ends the capture when it is aborted, as `close()` does. */
  signal?: AbortSignal;
}

/** Samples of a packet, interleaved, by format: `s16`, `f32`, `mulaw`. */
export type Samples = Int16Array | Float32Array | Uint8Array;

/**
 * A packet of sound: a view of a slot. It is on loan until the listener returns or the loop asks
 * for the next; `retain()` keeps it until `release()`. The object and its views are made once a
 * slot and come back with other sound: copy what you keep.
 */
export interface Packet {
  /** Counts packets from 0, those that were lost for want of a slot included. */
  readonly sequence: number;
  /**
   * When the first frame was captured, in ns of the clock of `process.hrtime()`, by the device's
   * own account. A double: exact while the machine is up for less than 104 days, then to 2 ns.
   */
  readonly timeNs: number;
  /** The device gives no time: it is estimated from when the packet arrived. */
  readonly timeEstimated: boolean;
  readonly frames: number;
  readonly channels: number;
  readonly sampleRate: number;
  /** The samples' bytes in the machine's order (little endian), in place. */
  readonly bytes: Buffer;
  /** The same memory as samples. */
  readonly samples: Samples;
  /** Every sample is zero. */
  readonly silent: boolean;
  /** This packet does not follow the one before: frames were lost, or left out on purpose. */
  readonly discontinuity: boolean;
  /** The gate opened with this packet. */
  readonly voiceBegins: boolean;
  /** Largest magnitude of a sample: 0 to 1. */
  readonly peak: number;
  /** Root mean square of the samples: 0 to 1. */
  readonly rms: number;
  /** Frames before this one, lost ones too, those that were left out on purpose not. */
  readonly position: number;
  /** Frames that were lost between the packet before and this one. */
  readonly droppedBefore: number;
  /** Keeps the packet beyond its loan, until one more `release()`. Returns itself. */
  retain(): this;
  /**
   * Gives the slot back to the capture: after this the bytes are somebody else's. One call too many
   * does nothing, or throws in debug mode.
   */
  release(): void;
  /** The bytes in memory of their own. Counted in `stats().copies`. */
  copy(): Buffer;
  /**
   * Copies the samples into memory of yours, and returns it: for consumers that refuse shared memory,
   * without an allocation. Counted in `stats().copies`.
   */
  copyTo<T extends Samples>(target: T): T;
  /** As `release()`, for `using`. */
  [Symbol.dispose](): void;
}

/** Peak and root mean square of the packet that was delivered last. */
export interface Level {
  /** Of full scale: 0 to 1. */
  peak: number;
  /** Of full scale: 0 to 1. */
  rms: number;
  /** In dBFS; −Infinity for silence. */
  peakDb: number;
  /** In dBFS; −Infinity for silence. */
  rmsDb: number;
}

/** Lost frames, with the packet before which they were found missing. */
export interface Overrun {
  /** Frames that were lost since the last event. */
  frames: number;
  /** All frames that were lost since the capture was opened. */
  framesTotal: number;
}

/** A device as the system knows it. */
export interface AudioDevice {
  /** What `Source.deviceId` takes. Stays the same over restarts where the system says so. */
  id: string;
  /** For people. */
  name: string;
  kind: 'input' | 'loopback';
  isDefault: boolean;
  /** What it runs at now. */
  sampleRate: number;
  channels: number;
  /** Which interface of the system knows it. */
  backend: Backend;
}

export type Backend = 'pulse' | 'alsa' | 'wasapi' | 'coreaudio' | 'synthetic';

/** A program that plays sound now. */
export interface AudioProcess {
  pid: number;
  name: string;
}

/** What happened to devices. Of a capture: to its own. */
export interface DeviceChange {
  /**
   * `added`, `removed`: plugged in, or gone. `default`: another one is the default now.
   * Of a capture: `lost`, `restored`: its device or server went away and came back. `moved`: it is on
   * another device now. `permission-suspected`: the samples look like those that a system gives in
   * place of what it denies.
   */
  kind: 'added' | 'removed' | 'default' | 'lost' | 'restored' | 'moved' | 'permission-suspected';
  /** An {@link AudioDevice.id}, where there is one. */
  deviceId: string | undefined;
  name: string | undefined;
  /** Of `restored`: frames that were lost in between. */
  lostFrames?: number;
  /** Of `lost`: what the system said. Of `permission-suspected`: what to do. */
  message?: string;
}

/** Codes of `AudioError`. */
export type AudioErrorCode =
  /** No sound server runs, or none can be reached. */
  | 'ERR_NO_SERVER'
  /** There is no such device, or no device at all. */
  | 'ERR_NO_DEVICE'
  /** There is no such process, or it plays nothing. */
  | 'ERR_NO_PROCESS'
  /** The system does not let this program capture. */
  | 'ERR_PERMISSION'
  /** The device is gone, and did not come back in time. */
  | 'ERR_UNPLUGGED'
  /** The device can't give this format, and `convert` is `refuse`. */
  | 'ERR_FORMAT'
  /** This system or build can't do that. */
  | 'ERR_UNSUPPORTED'
  /** No slot was free, and `overrun` is `error`. */
  | 'ERR_OVERRUN'
  /** A packet was used after it was released. Debug mode only. */
  | 'ERR_PACKET_RELEASED'
  /** The capture is closed. */
  | 'ERR_CLOSED'
  /** There are other readers: a capture has one at a time. */
  | 'ERR_BUSY'
  /** An option is not what it may be. */
  | 'ERR_INVALID_OPTION'
  /** The native part for this platform is not installed. */
  | 'ERR_NO_BINARY'
  /** A stream was refused, or its server can't be reached any more. */
  | 'ERR_STREAM'
  /** The system failed otherwise. */
  | 'ERR_SYSTEM';

/** What a capture did since it was opened. Frames are of the packets' format. */
export interface CaptureStats {
  /** Packets that were filled, delivered or not. */
  captured: number;
  /** Frames that were captured or lost, not those that were left out on purpose. */
  capturedFrames: number;
  /** Packets that a reader got. */
  delivered: number;
  /** Frames that were lost: for want of a free slot, and by the device. */
  droppedFrames: number;
  overrunFrames: number;
  lostFrames: number;
  /** Frames that `silence: 'skip'`, the gate or a pause left out. */
  silentFrames: number;
  gatedFrames: number;
  pausedFrames: number;
  /** Interruptions by the device, and connections to a sound server that were made again. */
  discontinuities: number;
  reconnects: number;
  slots: { total: number; free: number; filled: number; held: number; heldPeak: number };
  /** Packets that found their slot free at once, and those that had to make room or were lost. */
  hits: number;
  misses: number;
  /** hits ÷ (hits + misses). */
  reuse: number;
  /** Frames copied or converted on the native side, each time that it is done. */
  copiedFrames: number;
  /** copiedFrames ÷ capturedFrames: 1 without a resampler. */
  copiesPerPacket: number;
  /** Packets that were copied on the JavaScript side: `copy()`, and `mode: 'copy'`. */
  copies: number;
  /** Copies that a consumer needs because it can't read shared memory: `toReadable`, `toWeb`. */
  fallbackCopies: number;
  /** Calls from the native side into JavaScript; each delivers all packets that are there. */
  wakes: number;
  /** From the capture of a packet's last frame to its delivery; of the first wake in each 268 ms, its first packet, to 1 µs. */
  latencyMs: { p50: number; p90: number; p99: number; max: number };
  /** What the resampler delays sound by; 0 without one. `timeNs` accounts for it. */
  resamplerDelayMs: number;
}

/** What `capture.batches()` takes. */
export interface BatchOptions {
  /** A batch is given no later than this after its first packet: default 50; 1 to 10,000. */
  maxMs?: number;
  /** A batch has at most so many packets. Default: half of the ring. */
  maxPackets?: number;
}

/** What `recordWav` did. */
export interface WavSummary {
  path: string;
  frames: number;
  /** Frames that were lost meanwhile, and that the file therefore lacks. */
  droppedFrames: number;
  bytes: number;
}

export interface RecordOptions {
  /** Ends the recording after so long. Default: when the capture ends or `signal` is aborted. */
  seconds?: number;
  signal?: AbortSignal;
  /** Writes silence in place of lost frames, so that the file keeps time. Default true. */
  fillGaps?: boolean;
}

/** What `capture.streamTo(url)` takes. */
export interface StreamOptions {
  /** Sent as `authorization: Bearer …`; a function is asked for every request. */
  token?: string | (() => string | Promise<string>);
  /** Further fields of each request. */
  headers?: Record<string, string>;
  /** A request is followed by another after so long: default 30,000; at least 100. */
  maxRequestMs?: number;
  /** … and after so many bytes: default 8 MiB; at least one packet. */
  maxRequestBytes?: number;
  /** Slots that may wait for the network at a time: default half of the ring. */
  maxHeldSlots?: number;
  /** How long the server may be out of reach before the stream fails: default 30,000. */
  giveUpMs?: number;
  /** PEM certificates to trust in place of the system's. */
  ca?: string | Buffer;
  signal?: AbortSignal;
  /** Is given what the server answers to each request, as it comes. */
  onResponse?: (chunk: Buffer, request: number) => void;
}

/** What a stream did. */
export interface StreamSummary {
  packets: number;
  bytes: number;
  requests: number;
  reconnects: number;
  /** Frames that the capture lost before they could be sent. */
  droppedFrames: number;
  /** Frames of requests that failed: the server knows by positions which of them arrived. */
  unconfirmedFrames: number;
}

/** The events of a capture. */
export interface CaptureEvents {
  /** On loan until all listeners returned. */
  packet: [packet: Packet];
  overrun: [overrun: Overrun];
  device: [change: DeviceChange];
  error: [error: Error];
  end: [];
}
