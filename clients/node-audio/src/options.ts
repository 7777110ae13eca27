import { invalid } from './check';
import { SAMPLE_BYTES } from './layout';
import type { NativeOptions, NativeSource } from './native';
import { PRESETS } from './presets';
import type { AudioFormat, CaptureOptions, Source } from './types';

/** Options of a capture with every default in its place. */
export interface Resolved {
  native: NativeOptions;
  copy: boolean;
  debug: boolean;
}

/** Resolves defaults of options that were checked. */
export function resolve(options: CaptureOptions): Resolved {
  const preset = options.preset === undefined ? undefined : PRESETS[options.preset];
  const defaults: AudioFormat = { sampleRate: 48_000, channels: 1, sample: 's16' };
  const asked = defined(options.format ?? {});
  const byMap = asked.channelMap === undefined ? {} : { channels: asked.channelMap.length };
  const format = { ...defaults, ...preset?.format, ...byMap, ...asked };
  return {
    native: native(options, format, {
      packetMs: options.packetMs ?? preset?.packetMs ?? 10,
      wakeMs: options.wakeMs ?? preset?.wakeMs ?? 20,
    }),
    copy: options.mode === 'copy',
    debug: options.debug ?? process.env['STEPPE_AUDIO_DEBUG'] === '1',
  };
}

interface Lengths {
  packetMs: number;
  wakeMs: number;
}

function native(options: CaptureOptions, format: AudioFormat, { packetMs, wakeMs }: Lengths): NativeOptions {
  const sources = toSources(options.source);
  const combine = options.combine ?? 'side-by-side';
  const isWide = sources.length === 2 && combine === 'side-by-side';
  const channels = format.channels * (isWide ? 2 : 1);
  const { sampleRate } = format;
  const frames = (sampleRate * packetMs) / 1e3;
  if (!Number.isInteger(frames)) {
    throw invalid(`packetMs is ${packetMs}: ${frames} frames, not a whole number`);
  }
  const bytes = frames * channels * SAMPLE_BYTES[format.sample];
  const slotBytes = options.ring?.slotBytes ?? bytes;
  if (slotBytes < bytes) throw invalid(`ring.slotBytes is ${slotBytes}; a packet has ${bytes} bytes`);
  const twoSeconds = Math.min(16_384, Math.max(16, Math.ceil(2_000 / packetMs)));
  const gate = options.gate === true ? {} : options.gate === false ? undefined : options.gate;
  return {
    sources,
    combine,
    sampleRate,
    channels: format.channels,
    channelMap: format.channelMap,
    sample: format.sample,
    packetFrames: frames,
    wakeFrames: Math.round((sampleRate * wakeMs) / 1e3),
    slots: options.ring?.slots ?? twoSeconds,
    slotBytes,
    overrun: options.overrun ?? 'drop-oldest',
    silence: options.silence ?? 'emit',
    convert: options.convert ?? 'allow',
    gate: gate && {
      thresholdDb: gate.thresholdDb ?? -45,
      hangoverMs: gate.hangoverMs ?? 300,
      prerollMs: gate.prerollMs ?? 100,
    },
  };
}

function toSources(source: CaptureOptions['source']): NativeSource[] {
  const list = source === undefined ? [{ kind: 'input' } as Source] : [source].flat() as Source[];
  return list.map(({ synthetic, ...rest }) => {
    const { format, ...signal } = synthetic ?? {};
    const channels = format?.channels ?? format?.channelMap?.length;
    return { ...rest, ...signal, ...format, ...(channels === undefined ? {} : { channels }) };
  });
}

/** Options without those that are `undefined`, which would hide defaults. */
function defined<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}
