/**
 * What the native addon exports. JavaScript resolves every default and checks every range before it
 * calls: the native side gets whole options.
 *
 * @internal
 */
import type { AudioDevice, AudioProcess, DeviceChange, SampleFormat } from './types';

/** @internal */
export interface NativeSource {
  kind: 'input' | 'loopback' | 'process' | 'synthetic';
  deviceId?: string;
  pid?: number;
  signal: 'tone' | 'probe' | 'silence' | 'speech';
  frequencyHz: number;
  driftPpm: number;
  pace: 'realtime' | 'burst';
  /** 0: without end. */
  packets: number;
}

/** @internal */
export interface NativeOptions {
  /** One or two. */
  sources: NativeSource[];
  combine: 'mix' | 'side-by-side';
  sampleRate: number;
  /** Of each source; the packets of two side by side have twice as many. */
  channels: number;
  sample: SampleFormat;
  packetFrames: number;
  slots: number;
  slotBytes: number;
  overrun: 'drop-oldest' | 'drop-newest' | 'error';
  silence: 'emit' | 'skip';
  convert: 'allow' | 'refuse';
  gate?: { thresholdDb: number; hangoverMs: number; prerollMs: number };
}

/**
 * What happened besides packets, in order. A capture that ends by itself has `end`, or `error`.
 *
 * @internal
 */
export interface NativeEvent {
  kind: 'device' | 'error' | 'end';
  change?: DeviceChange;
  code?: string;
  message?: string;
}

/** @internal */
export interface NativeStats {
  resamplerDelayMs: number;
  /** What the device was opened with. */
  deviceSampleRate: number;
  deviceChannels: number;
}

/** @internal */
export interface NativeCapture {
  /** Opens the device. Rejects with a code. */
  start(): Promise<void>;
  pause(): void;
  resume(): void;
  /** The capture thread is gone when it returns. */
  close(): void;
  /** Called after a doorbell whose control word `events` was not 0; takes them all. */
  takeEvents(): NativeEvent[];
  stats(): NativeStats;
}

/** @internal */
export interface NativeWatch {
  close(): void;
}

/** @internal */
export interface NativeAddon {
  Native: new (
    options: NativeOptions,
    /** Allocated and described by JavaScript: see `layout.ts`. */
    ring: SharedArrayBuffer,
    onDoorbell: () => void,
  ) => NativeCapture;
  /**
   * Sleeps until `head` is no more `seen`, the ring is closed or `ms` are over; from any Worker that
   * has the ring. True: there is something new.
   */
  wait(ring: SharedArrayBuffer, seen: number, ms: number): boolean;
  devices(): Promise<AudioDevice[]>;
  processes(): Promise<AudioProcess[]>;
  watch(onChange: (change: DeviceChange) => void): NativeWatch;
}
