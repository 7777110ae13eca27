/**
 * The public types of @steppe/audio: options, packets, devices and statistics.
 *
 * Names end with their unit: `Ms`, `Ns`, `Bytes`. A frame is one sample of every channel; a packet is a
 * fixed number of frames; a slot is the memory of one packet in the ring.
 */

/** Encoding of one sample: signed 16-bit integers, 32-bit floats in ±1, or 8-bit µ-law (G.711). */
export type SampleFormat = 's16' | 'f32' | 'mulaw';

/**
 * Position of a channel, with the names of PulseAudio. `aux0` to `aux31` are channels without a position,
 * by number.
 */
export type ChannelPosition =
  | 'mono'
  | 'front-left' | 'front-right' | 'front-center'
  | 'lfe'
  | 'rear-left' | 'rear-right' | 'rear-center'
  | 'front-left-of-center' | 'front-right-of-center'
  | 'side-left' | 'side-right'
  | 'top-center'
  | 'top-front-left' | 'top-front-right' | 'top-front-center'
  | 'top-rear-left' | 'top-rear-right' | 'top-rear-center'
  | `aux${number}`;

/** Format of packets. The device is opened in this format, or its sound is converted to it. */
export interface AudioFormat {
  /** Frames per second: 4,000 to 384,000. */
  sampleRate: number;
  /** Interleaved channels: 1 to 32. With two sources side by side: channels of each source. */
  channels: number;
  sample: SampleFormat;
  /**
   * Positions of the channels, in their order. Default: the order of WAVE files for up to 8 channels (see
   * the README), then `aux0`, `aux1`, …. With two sources side by side: those of each source. A device with
   * other positions is mixed by them.
   */
  channelMap?: readonly ChannelPosition[];
}

/**
 * Kind of a sound source.
 * - `input`: a microphone or line input.
 * - `loopback`: the sound that the machine plays, from the monitor of an output.
 * - `process`: the sound that one program plays, all its streams mixed. PulseAudio and PipeWire, Windows,
 *   macOS 14.2 and later.
 * - `synthetic`: generated samples, without a device; see {@link SyntheticOptions}.
 */
export type SourceKind = 'input' | 'loopback' | 'process' | 'synthetic';

export interface Source {
  kind: SourceKind;
  /** An {@link AudioDevice.id}. Default: the system's default device. */
  deviceId?: string;
  /** For `process`: ID of the captured process; see `AudioCapture.processes()`. */
  pid?: number;
  /**
   * For `process` with a `pid`, on Linux: {@link AudioProcess.startTimeMs}, so that another process that has
   * the ID by now is not captured. Default: the process that has the ID when the capture opens.
   */
  startTimeMs?: number;
  /**
   * For `process` in place of `pid`, on Linux: name or executable of a program, in any case. All its
   * processes are captured.
   */
  program?: string;
  /**
   * For `process`: what is captured beside the processes that were asked for.
   * - `children`: child processes, and theirs: the default with a `pid`. Not on macOS.
   * - `restart`: the program when it is started again after it has ended: the default with a `program`.
   *   Linux only. The capture does not end by itself.
   * - `none`: nothing. The default on macOS.
   */
  follow?: 'restart' | 'children' | 'none';
  /** For `synthetic`. */
  synthetic?: SyntheticOptions;
}

/** Signal and pace of a synthetic source. */
export interface SyntheticOptions {
  /**
   * `tone`: a sine of `frequencyHz` at half of full scale. `probe`: samples that encode their frame
   * number, so that every lost frame can be counted: in `s16`, the low 15 bits in the first channel and
   * the next 15 in the second; in `f32`, the number modulo 2^24, divided by 2^24. `silence`: zeros.
   * `speech`: alternately one second of noise and one of silence, to test a gate. Default `tone`.
   */
  signal?: 'tone' | 'probe' | 'silence' | 'speech';
  /** For `tone`: default 440. */
  frequencyHz?: number;
  /** Clock drift of the source, in parts per million: default 0, at most ±10,000. */
  driftPpm?: number;
  /** `realtime` (the default) generates at the sample rate; `burst` generates as fast as slots become free. */
  pace?: 'realtime' | 'burst';
  /** For `realtime`: multiple of real time, up to 10,000. Default 1. */
  speed?: number;
  /** Number of packets after which the capture ends. Default: no end. */
  packets?: number;
  /** Format of the synthetic device, which is converted to that of packets. Default: the same format. */
  format?: Partial<AudioFormat>;
}

/** Memory that the capture allocates once, when it opens. It never grows. */
export interface RingOptions {
  /** Number of slots, one for each packet: 2 to 16,384. Default: enough for 2 s, at least 16. */
  slots?: number;
  /** Bytes of a slot, at least one packet. Default: one packet, rounded up to 64. */
  slotBytes?: number;
}

/** Policy for sound that arrives while no slot is free. Lost frames are counted in every case. */
export type OverrunPolicy =
  /** Drops the oldest packet that is not held. */
  | 'drop-oldest'
  /** Drops the new packet. */
  | 'drop-newest'
  /** Ends the capture with `ERR_OVERRUN`. */
  | 'error';

/** Voice-activity gate: delivers packets with speech and omits others, which count as `gatedFrames`, not as lost. */
export interface GateOptions {
  /** Level above which a packet is speech, in dBFS of RMS: default −45; from −90 to 0. */
  thresholdDb?: number;
  /** Time that the gate stays open after speech: default 300; 0 to 10,000. */
  hangoverMs?: number;
  /** Time before speech that is delivered too: default 100; 0 to 1,000. */
  prerollMs?: number;
}

/** Names of presets; `PRESETS` has their formats. */
export type PresetName = 'openai-realtime' | 'whisper' | 'livekit' | 'telephony';

/** Options of `AudioCapture.open`. Every option has a default: `open()` captures the microphone. */
export interface CaptureOptions {
  /** Format and packet length of a known consumer. `format` and `packetMs` override parts of it. */
  preset?: PresetName;
  /**
   * Source, or two sources. Default `{ kind: 'input' }`. Two sources are aligned on the clock of the
   * first: the second is resampled as its clock drifts.
   */
  source?: Source | readonly [Source, Source];
  /** Combination of two sources: `mix`, or `side-by-side` (the default) with the channels of the first source first. */
  combine?: 'mix' | 'side-by-side';
  /** Format of packets. Default 48,000 Hz, 1 channel, `s16`. */
  format?: Partial<AudioFormat>;
  /** Length of a packet: 1 to 1,000; it must be a whole number of frames. Default 10. */
  packetMs?: number;
  /**
   * Time between wakes of the event loop, or of a Worker: 1 to 1,000. Packets that come in between are delivered
   * together, the first of them by this time less `packetMs` later. A wake costs more than a packet: `wakeMs: 10` has
   * packets of 10 ms delivered one by one, for 1.3 to 1.4 times the CPU time. Default 20, with the preset `livekit` 10.
   * Less than `packetMs` is the same as `packetMs`, more than half of the ring the same as half of it, and of a process
   * or two sources more than 20 the same as 20. For PulseAudio, PipeWire and ALSA: others deliver each packet when it comes.
   */
  wakeMs?: number;
  ring?: RingOptions;
  /** Policy if no slot is free. Default `drop-oldest`. */
  overrun?: OverrunPolicy;
  /** Delivers packets of pure silence (`emit`, the default), or omits them (`skip`). */
  silence?: 'emit' | 'skip';
  /**
   * `zero-copy` (the default): packets are views of the ring, valid until the listener returns or the
   * loop requests the next. `copy`: each packet has its own memory and stays valid.
   */
  mode?: 'zero-copy' | 'copy';
  /** If the device can't provide `format`: convert its sound (`allow`, the default), or fail with `ERR_FORMAT`. */
  convert?: 'allow' | 'refuse';
  /** Omits packets without speech. `true`: a gate with default options. Default: no gate. */
  gate?: boolean | GateOptions;
  /**
   * Detects use after release: each packet is a fresh object, released slots are overwritten, and use
   * of a released packet throws `ERR_PACKET_RELEASED`. Allocates for each packet. Default: true if the
   * environment variable `STEPPE_AUDIO_DEBUG` is `1`.
   */
  debug?: boolean;
  /** Ends the capture when aborted, as `close()` does. */
  signal?: AbortSignal;
}

/** Interleaved samples of a packet: `Int16Array` for `s16`, `Float32Array` for `f32`, `Uint8Array` for `mulaw`. */
export type Samples = Int16Array | Float32Array | Uint8Array;

/**
 * A packet of sound: a view of a slot. It is valid until the listener returns or the loop requests the
 * next packet; `retain()` keeps it until `release()`. The object and its views are created once for each
 * slot and reused for later packets: use `copy()` to keep samples longer.
 */
export interface Packet {
  /** Sequence number from 0. Packets that were lost because no slot was free count too. */
  readonly sequence: number;
  /**
   * Capture time of the first frame as reported by the device, in ns of the clock of `process.hrtime()`.
   * A double: exact while the machine is up for less than 104 days, then to 2 ns.
   */
  readonly timeNs: number;
  /**
   * Time of day of its first frame, in ms since 1970, with a fraction: `new Date(packet.wallTimeMs)`. It is `timeNs` by
   * the system's clock of now: where that was set since, it is what the clock would have said then.
   */
  readonly wallTimeMs: number;
  /**
   * Bound of the error of `wallTimeMs` and `timeNs`, in ms: by how much the device's times of late were apart from
   * its clock's, and what reading the system's clock adds; a packet's length more if the time is estimated. What
   * the device itself does not tell, such as the delay of a converter, is not in it.
   */
  readonly timeErrorMs: number;
  /** True if the device reports no time, and `timeNs` is estimated from the arrival of the packet. */
  readonly timeEstimated: boolean;
  readonly frames: number;
  readonly channels: number;
  readonly sampleRate: number;
  /** Bytes of the samples in the machine's order (little-endian), in place. */
  readonly bytes: Buffer;
  /** The same memory as typed samples. */
  readonly samples: Samples;
  /** True if every sample is zero. */
  readonly silent: boolean;
  /** True if frames before this packet were lost, or omitted on purpose. */
  readonly discontinuity: boolean;
  /** True if the gate opened with this packet. */
  readonly voiceBegins: boolean;
  /** Largest absolute value of a sample: 0 to 1. */
  readonly peak: number;
  /** Root mean square of the samples: 0 to 1. */
  readonly rms: number;
  /** Number of frames before this packet: lost frames count, frames omitted on purpose do not. */
  readonly position: number;
  /** Frames that were lost between the previous packet and this one. */
  readonly droppedBefore: number;
  /** True if the system did not count some of `droppedBefore`: they are estimated by the time that passed. */
  readonly droppedEstimated: boolean;
  /** Keeps the packet valid until one more call of `release()`. Returns the packet. */
  retain(): this;
  /**
   * Returns the slot to the capture, which reuses its bytes. A surplus call does nothing; in debug
   * mode it throws `ERR_PACKET_RELEASED`.
   */
  release(): void;
  /** Returns a copy of the bytes. Counted in `stats().copies`. */
  copy(): Buffer;
  /**
   * Copies the samples into `target`, and returns it. For consumers that refuse shared memory; does not
   * allocate. Counted in `stats().copies`.
   */
  copyTo<T extends Samples>(target: T): T;
  /** Releases the packet, for `using`; does nothing if it was released before. */
  [Symbol.dispose](): void;
}

/** Peak and root mean square of the last delivered packet. */
export interface Level {
  /** Fraction of full scale: 0 to 1. */
  peak: number;
  /** Fraction of full scale: 0 to 1. */
  rms: number;
  /** In dBFS; −Infinity for silence. */
  peakDb: number;
  /** In dBFS; −Infinity for silence. */
  rmsDb: number;
}

/** Lost frames, detected when the packet after them is read. */
export interface Overrun {
  /** Frames lost since the previous event. */
  frames: number;
  /** Frames lost since the capture was opened. */
  framesTotal: number;
  /** Those of `framesTotal` that the system did not count: estimated by the time that passed. */
  framesEstimated: number;
}

/** A device of the system. */
export interface AudioDevice {
  /** ID for `Source.deviceId`. Its stability across restarts depends on the system. */
  id: string;
  /** Human-readable name. */
  name: string;
  kind: 'input' | 'loopback';
  isDefault: boolean;
  /** Current sample rate. */
  sampleRate: number;
  channels: number;
  /** Positions of the channels. */
  channelMap: readonly ChannelPosition[];
  /** Sound system that provides the device. */
  backend: Backend;
}

/** Sound system of a device. */
export type Backend = 'pulse' | 'alsa' | 'wasapi' | 'coreaudio' | 'synthetic';

/** A program that plays sound now. */
export interface AudioProcess {
  pid: number;
  /** Start of the process, in ms after that of the machine; Linux only. Process IDs are used again. */
  startTimeMs?: number;
  name: string;
}

/** Change of devices. An event of a capture reports changes of its own device. */
export interface DeviceChange {
  /**
   * `added`, `removed`: a device was plugged in or removed. `default`: this device is the new default.
   * Events of a capture: `lost`, `restored`: its device or server disappeared and returned. `moved`: it
   * captures from another device now. `permission-suspected`: all samples are zero, which suggests that
   * the system denies access.
   */
  kind: 'added' | 'removed' | 'default' | 'lost' | 'restored' | 'moved' | 'permission-suspected';
  /** An {@link AudioDevice.id}, if known. */
  deviceId: string | undefined;
  name: string | undefined;
  /** For `restored`: frames lost in between. */
  lostFrames?: number;
  /** For `lost`: the reason. For `permission-suspected`: a remedy. */
  message?: string;
}

/** Codes of `AudioError`. */
export type AudioErrorCode =
  /** No sound server is running, or it cannot be reached. */
  | 'ERR_NO_SERVER'
  /** The device does not exist, or there is no device at all. */
  | 'ERR_NO_DEVICE'
  /** The process does not exist, or plays no sound. */
  | 'ERR_NO_PROCESS'
  /** The system denies this program access. */
  | 'ERR_PERMISSION'
  /** The device was removed, and did not return in time. */
  | 'ERR_UNPLUGGED'
  /** The device can't provide this format, and `convert` is `refuse`. */
  | 'ERR_FORMAT'
  /** Not supported on this system or in this build. */
  | 'ERR_UNSUPPORTED'
  /** No slot was free, and `overrun` is `error`. */
  | 'ERR_OVERRUN'
  /** A packet was used after it was released. Debug mode only. */
  | 'ERR_PACKET_RELEASED'
  /** The capture is closed. */
  | 'ERR_CLOSED'
  /** The capture already has a reader; only one at a time is allowed. */
  | 'ERR_BUSY'
  /** An option has an invalid value. */
  | 'ERR_INVALID_OPTION'
  /** A file, pipe or stream of a recording can't be written; `cause` is the error of the system. */
  | 'ERR_FILE'
  /** The native addon for this platform is not installed. */
  | 'ERR_NO_BINARY'
  /** The server refused a stream, or is no longer reachable. */
  | 'ERR_STREAM'
  /** Any other error of the system. */
  | 'ERR_SYSTEM';

/** Beginning of a capture: when its first frame was captured, also if it was lost or omitted on purpose. */
export interface CaptureStart {
  /** As {@link Packet.timeNs}. */
  readonly timeNs: number;
  /** As {@link Packet.wallTimeMs}. */
  readonly wallTimeMs: number;
}

/** Statistics of a capture since it was opened. Frames are counted in the format of packets. */
export interface CaptureStats {
  /** Packets captured, delivered or not. */
  captured: number;
  /** Frames captured or lost, without frames omitted on purpose. */
  capturedFrames: number;
  /** Packets delivered to a reader. */
  delivered: number;
  /** Lost frames: `overrunFrames` plus `lostFrames`. */
  droppedFrames: number;
  /** Frames lost because no slot was free. */
  overrunFrames: number;
  /** Frames lost by the device or the sound server. */
  lostFrames: number;
  /** Those of `lostFrames` that the system did not count: estimated by the time that passed. */
  estimatedFrames: number;
  /** Missing frames of the second source, or of one of a program's streams, that are silence in packets. */
  filledFrames: number;
  /**
   * Frames of a program's streams that may be missing at most, and that no other figure has: those from the time that
   * the server announced a stream until its first frame that it recorded, and those that it did not send of a stream
   * that it ended. 0 for devices.
   */
  unheardFrames: number;
  /** Frames omitted by `silence: 'skip'`. */
  silentFrames: number;
  /** Frames omitted by the gate. */
  gatedFrames: number;
  /** Frames omitted during a pause. */
  pausedFrames: number;
  /** Interruptions by the device. */
  discontinuities: number;
  /** Reconnects to a sound server. */
  reconnects: number;
  /** Slots of the ring by state; `heldPeak` is the most slots that were held at once. */
  slots: { total: number; free: number; filled: number; held: number; heldPeak: number };
  /** Packets that found a free slot. */
  hits: number;
  /** Packets that replaced an older packet or were lost. */
  misses: number;
  /** hits ÷ (hits + misses). */
  reuse: number;
  /** Frames copied or converted in native code, counted once for each step. */
  copiedFrames: number;
  /** copiedFrames ÷ capturedFrames: 1 without a resampler. */
  copiesPerPacket: number;
  /** Packets copied in JavaScript: `copy()`, `copyTo()` and `mode: 'copy'`. */
  copies: number;
  /** Packets copied for a consumer that can't read shared memory: `toReadable`, `toWeb`. */
  fallbackCopies: number;
  /** Calls from native code into JavaScript; each delivers all waiting packets. */
  wakes: number;
  /** Times that the system's clock was set while packets came: `wallTimeMs` follows it. */
  wallSteps: number;
  /**
   * Time from the capture of a packet's last frame to its delivery, to 1 µs. Sampled: the first packet of
   * the first wake in each 268 ms.
   */
  latencyMs: { p50: number; p90: number; p99: number; max: number };
  /** Delay of the resampler; 0 without one. `timeNs` accounts for it. */
  resamplerDelayMs: number;
}

/** Options of `capture.batches()`. */
export interface BatchOptions {
  /** Longest time from the first packet of a batch to its delivery: default 50; 1 to 10,000. */
  maxMs?: number;
  /** Maximum number of packets in a batch. Default: half of the ring. */
  maxPackets?: number;
}

/** Result of `recordWav`. */
export interface WavSummary {
  /** The path or pattern; `-` for a stream. */
  path: string;
  /** Number of files: 1 without `roll`. */
  files: number;
  frames: number;
  /** Frames lost during the recording: silence in the file, or missing from it without `fillGaps`. */
  droppedFrames: number;
  /** Size of all files. */
  bytes: number;
}

/** A file that a recording has completed. */
export interface RecordedFile {
  path: string;
  frames: number;
  bytes: number;
}

/** Limits of one file of a recording; the next file follows without a gap. */
export interface RollOptions {
  /** Length of a file: above 0. */
  seconds?: number;
  /** Size of a file with its header: at least 1,024. */
  bytes?: number;
}

/** Options of `recordWav`. */
export interface RecordOptions {
  /**
   * Length of the recording: above 0. It also ends when this time has passed and no sound comes. Default: until
   * the capture ends or `signal` is aborted.
   */
  seconds?: number;
  /** Ends the recording, also while no sound comes; the file is complete. */
  signal?: AbortSignal;
  /** Writes silence in place of lost frames, so that the file keeps its timing. Default true. */
  fillGaps?: boolean;
  /**
   * Writes a row of files. The path is a pattern: `%v` is the number of the file, from 1 on, and required;
   * `%03v` has three digits; `%Y`, `%m`, `%d`, `%H`, `%M` and `%S` are the local time at which the file begins;
   * `%%` is a percent sign.
   */
  roll?: RollOptions;
  /** Called when a file is complete. */
  onFile?: (file: RecordedFile) => void;
}

/** Options of `capture.streamTo(url)`. */
export interface StreamOptions {
  /** Bearer token, sent in the field `authorization`; a function is called for each request. */
  token?: string | (() => string | Promise<string>);
  /** Additional fields of each request. */
  headers?: Record<string, string>;
  /** Age at which a request ends and the next begins: default 30,000; at least 100. */
  maxRequestMs?: number;
  /** Size at which a request ends and the next begins: default 8 MiB; at least one packet. */
  maxRequestBytes?: number;
  /** Maximum number of slots that wait for the network: default half of the ring. */
  maxHeldSlots?: number;
  /** Time without a successful request after which the stream fails: default 30,000. */
  giveUpMs?: number;
  /** PEM root certificates to trust instead of the default ones. */
  ca?: string | Buffer;
  signal?: AbortSignal;
  /** Called with each chunk of a response's content, and the number of its request. */
  onResponse?: (chunk: Buffer, request: number) => void;
}

/** Result of a stream. */
export interface StreamSummary {
  packets: number;
  bytes: number;
  requests: number;
  reconnects: number;
  /** Frames lost by the capture before they could be sent. */
  droppedFrames: number;
  /** Frames of failed requests: the server can tell by positions which of them arrived. */
  unconfirmedFrames: number;
}

/** The events of a capture. */
export interface CaptureEvents {
  /** A packet, valid until all listeners have returned. */
  packet: [packet: Packet];
  overrun: [overrun: Overrun];
  device: [change: DeviceChange];
  error: [error: Error];
  end: [];
}
