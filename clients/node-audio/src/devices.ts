import './symbols';
import { EventEmitter, on } from 'node:events';
import { AudioError, toAudioError } from './error';
import { addon, type NativeReport } from './native';
import type { AudioDevice, AudioErrorCode, AudioProcess, Backend, DeviceChange } from './types';

/** Lists the devices that can be captured; outputs have the kind `loopback`. */
export async function devices(): Promise<AudioDevice[]> {
  const found = await asked(() => addon().devices());
  return found.devices.map(({ format, backend, ...device }) => ({
    ...device,
    backend: backend as Backend,
    sampleRate: format.sampleRate,
    channels: format.channels,
    channelMap: format.channelMap,
  }));
}

/** Lists the programs that play sound now. */
export async function processes(): Promise<AudioProcess[]> {
  return (await asked(() => addon().processes())).programs;
}

async function asked<T extends NativeReport>(ask: () => Promise<T>): Promise<T> {
  const found = await ask().catch((error: unknown) => Promise.reject(toAudioError(error)));
  if (found.code !== undefined) {
    throw new AudioError(found.code as AudioErrorCode, found.message ?? found.code);
  }
  return found;
}

/**
 * Watches for devices that are added, removed or become the default. It reports them as `change` events
 * or to one `for await` loop, and does not keep the process alive.
 */
export class DeviceWatch extends EventEmitter<{ change: [change: DeviceChange] }> {
  private readonly watcher: { close(): void };
  private readonly ended = new AbortController();
  private known: AudioDevice[] | undefined;
  private looking: Promise<void>;

  constructor() {
    super();
    this.looking = this.look();
    this.watcher = new (addon().Watcher)(() => {
      this.looking = this.looking.then(() => this.look());
    });
  }

  /** Stops the watch and ends its loop. */
  close(): void {
    this.watcher.close();
    this.ended.abort();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<DeviceChange, void, undefined> {
    try {
      for await (const [change] of on(this, 'change', { signal: this.ended.signal })) yield change;
    } catch (error) {
      if (!this.ended.signal.aborted) throw error;
    } finally {
      this.close();
    }
  }

  private async look(): Promise<void> {
    // Without a server there are no devices; when it is back they are added.
    const now = await devices().catch(() => []);
    const before = this.known;
    this.known = now;
    if (before === undefined || this.ended.signal.aborted) return;
    for (const change of changes(before, now)) this.emit('change', change);
  }
}

/** Differences between two lists of devices. */
export function changes(before: AudioDevice[], now: AudioDevice[]): DeviceChange[] {
  const tell = (kind: DeviceChange['kind']) => ({ id, name }: AudioDevice): DeviceChange => ({
    kind,
    deviceId: id,
    name,
  });
  const isIn = (list: AudioDevice[]) => ({ id }: AudioDevice) => list.some((one) => one.id === id);
  const became = (device: AudioDevice) =>
    device.isDefault && !before.some(({ id, isDefault }) => id === device.id && isDefault);
  return [
    ...before.filter((device) => !isIn(now)(device)).map(tell('removed')),
    ...now.filter((device) => !isIn(before)(device)).map(tell('added')),
    ...now.filter(became).map(tell('default')),
  ];
}
