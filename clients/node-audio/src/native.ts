/**
 * Exports of the native addon. JavaScript resolves every default before it calls.
 *
 * @internal
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { AudioError } from './error';
import type { ChannelPosition, SampleFormat } from './types';

/** @internal */
export interface NativeSource {
  kind: string;
  deviceId?: string | undefined;
  pid?: number | undefined;
  startTimeMs?: number | undefined;
  program?: string | undefined;
  follow?: string | undefined;
  signal?: string | undefined;
  frequencyHz?: number | undefined;
  driftPpm?: number | undefined;
  pace?: string | undefined;
  speed?: number | undefined;
  packets?: number | undefined;
  sampleRate?: number | undefined;
  channels?: number | undefined;
  channelMap?: readonly string[] | undefined;
  sample?: SampleFormat | undefined;
}

/** @internal */
export interface NativeOptions {
  sources: NativeSource[];
  combine: string;
  sampleRate: number;
  channels: number;
  channelMap?: readonly string[] | undefined;
  sample: SampleFormat;
  packetFrames: number;
  wakeFrames?: number | undefined;
  slots: number;
  slotBytes: number;
  overrun: string;
  silence: string;
  convert: string;
  gate?: { thresholdDb: number; hangoverMs: number; prerollMs: number } | undefined;
}

/** @internal */
export interface NativeFormat {
  sampleRate: number;
  channels: number;
  channelMap: ChannelPosition[];
  sample: SampleFormat;
}

/** @internal */
export interface NativeEvent {
  kind:
    | 'open'
    | 'moved'
    | 'suspended'
    | 'resumed'
    | 'reconnecting'
    | 'reconnected'
    | 'permission-suspected'
    | 'failed'
    | 'ended';
  device?: string;
  format?: NativeFormat;
  delayFrames?: number;
  lostFrames?: number;
  code?: string;
  message?: string;
}

/** @internal */
export interface NativeCapture {
  channelMap(): ChannelPosition[];
  start(): void;
  pause(): void;
  resume(): void;
  ref(): void;
  unref(): void;
  events(): NativeEvent[];
  close(): void;
}

/** @internal */
export interface NativeWaiter {
  wait(seen: number, timeoutMs: number): number;
  close(): void;
}

/** @internal */
export interface NativeReport {
  code?: string;
  message?: string;
}

/** @internal */
export interface NativeDevice {
  id: string;
  name: string;
  kind: 'input' | 'loopback';
  isDefault: boolean;
  format: NativeFormat;
  backend: string;
}

/** @internal */
export interface NativeAddon {
  Native: new (options: NativeOptions, ring: Uint8Array, onDoorbell: () => void) => NativeCapture;
  Waiter: new (ring: Uint8Array) => NativeWaiter;
  Watcher: new (onChange: () => void) => { close(): void };
  layout(slots: number, slotBytes: number): { bytes: number };
  devices(): Promise<NativeReport & { devices: NativeDevice[] }>;
  processes(): Promise<NativeReport & { programs: { pid: number; startTimeMs?: number; name: string }[] }>;
}

/** True if the C library is musl: glibc has its version in the report. */
function isMusl(): boolean {
  const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } };
  return process.platform === 'linux' && report.header?.glibcVersionRuntime === undefined;
}

/** The name of this platform's addon, as packages and files have it. */
export function triple(): string {
  const { platform, arch } = process;
  if (platform === 'linux') return `linux-${arch}-${isMusl() ? 'musl' : 'gnu'}`;
  return platform === 'win32' ? `win32-${arch}-msvc` : `${platform}-${arch}`;
}

let loaded: NativeAddon | undefined;

/**
 * The addon: that of a checkout, else that of the platform's package, which npm installs as an
 * optional dependency. `STEPPE_AUDIO_NATIVE` names another file.
 *
 * @internal
 */
export function addon(): NativeAddon {
  loaded ??= load();
  return loaded;
}

function load(): NativeAddon {
  const name = triple();
  const built = join(__dirname, '..', 'native', `steppe-audio.${name}.node`);
  const named = process.env['STEPPE_AUDIO_NATIVE'];
  const path = named ?? (existsSync(built) ? built : `@steppe/audio-${name}`);
  try {
    return require(path) as NativeAddon;
  } catch (error) {
    const message = `no native addon for ${name}: reinstall without --omit=optional, or build it with \`npm run build:native\` (${(error as Error).message})`;
    throw new AudioError('ERR_NO_BINARY', message);
  }
}
