import { AudioError } from './error';
import { SAMPLE_BYTES } from './layout';
import type { NativeOptions, NativeSource } from './native';
import { PRESETS } from './presets';
import type { AudioFormat, CaptureOptions, Source } from './types';

const KEYS = new Set([
  'preset', 'source', 'combine', 'format', 'packetMs', 'ring', 'overrun', 'silence', 'mode',
  'convert', 'gate', 'debug', 'signal',
]);

/** What a capture is made of, with every default in its place. */
export interface Resolved {
  native: NativeOptions;
  copy: boolean;
  debug: boolean;
}

/** Checks options that only JavaScript has, and resolves defaults; the native side checks its own. */
export function resolve(options: CaptureOptions): Resolved {
  const unknown = Object.keys(options).find((key) => !KEYS.has(key));
  if (unknown !== undefined) throw invalid(`unknown option '${unknown}'`);
  const preset = options.preset === undefined ? undefined : PRESETS[options.preset];
  if (options.preset !== undefined && preset === undefined) {
    throw invalid(`preset is '${options.preset}'; expected one of ${Object.keys(PRESETS).join(', ')}`);
  }
  const defaults: AudioFormat = { sampleRate: 48_000, channels: 1, sample: 's16' };
  const format = { ...defaults, ...preset?.format, ...options.format };
  if (!(format.sample in SAMPLE_BYTES)) {
    throw invalid(`format.sample is '${String(format.sample)}'; expected s16, f32 or mulaw`);
  }
  const mode = oneOf('mode', options.mode ?? 'zero-copy', ['zero-copy', 'copy']);
  return {
    native: native(options, format, options.packetMs ?? preset?.packetMs ?? 10),
    copy: mode === 'copy',
    debug: options.debug ?? process.env['STEPPE_AUDIO_DEBUG'] === '1',
  };
}

function native(options: CaptureOptions, format: AudioFormat, packetMs: number): NativeOptions {
  const sources = toSources(options.source);
  const combine = options.combine ?? 'side-by-side';
  const isWide = sources.length === 2 && combine === 'side-by-side';
  const channels = whole('format.channels', format.channels) * (isWide ? 2 : 1);
  const sampleRate = whole('format.sampleRate', format.sampleRate);
  const frames = (sampleRate * packetMs) / 1e3;
  if (!(packetMs >= 1 && packetMs <= 1e3)) throw invalid(`packetMs is ${packetMs}; expected 1 to 1000`);
  if (!Number.isInteger(frames)) {
    throw invalid(`packetMs is ${packetMs}: ${frames} frames, not a whole number`);
  }
  const bytes = frames * channels * SAMPLE_BYTES[format.sample];
  const slotBytes = whole('ring.slotBytes', options.ring?.slotBytes ?? bytes);
  if (slotBytes < bytes) throw invalid(`ring.slotBytes is ${slotBytes}; a packet has ${bytes} bytes`);
  const twoSeconds = Math.min(16_384, Math.max(16, Math.ceil(2_000 / packetMs)));
  const gate = options.gate === true ? {} : options.gate === false ? undefined : options.gate;
  return {
    sources,
    combine,
    sampleRate,
    channels: format.channels,
    sample: format.sample,
    packetFrames: frames,
    slots: whole('ring.slots', options.ring?.slots ?? twoSeconds),
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
    return { ...rest, ...signal, ...format };
  });
}

function whole(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > 0xffff_ffff) {
    throw invalid(`${name} is ${value}; expected a whole number from 1 to 4294967295`);
  }
  return value;
}

function oneOf<T extends string>(name: string, value: T, words: readonly T[]): T {
  if (words.includes(value)) return value;
  throw invalid(`${name} is '${value}'; expected ${words.join(' or ')}`);
}

export function invalid(message: string): AudioError {
  return new AudioError('ERR_INVALID_OPTION', `invalid option: ${message}`);
}
