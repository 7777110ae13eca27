import type { AudioFormat, PresetName } from './types';

/** Format and packet length of a known consumer. */
export interface Preset {
  readonly format: Readonly<AudioFormat>;
  readonly packetMs: number;
  /** See `CaptureOptions.wakeMs`. */
  readonly wakeMs?: number;
  /** Purpose, in one line. */
  readonly description: string;
}

/**
 * Formats and packet lengths of known consumers. A preset may need a resampler: its delay is in
 * `stats().resamplerDelayMs`, and `timeNs` accounts for it.
 */
export const PRESETS: Readonly<Record<PresetName, Preset>> = {
  'openai-realtime': {
    format: { sampleRate: 24_000, channels: 1, sample: 's16' },
    packetMs: 20,
    description: 'realtime speech APIs: 24 kHz, 16-bit, mono, 20 ms',
  },
  whisper: {
    format: { sampleRate: 16_000, channels: 1, sample: 'f32' },
    packetMs: 32,
    description: 'speech recognition: 16 kHz, 32-bit float, mono, 32 ms',
  },
  livekit: {
    format: { sampleRate: 48_000, channels: 1, sample: 's16' },
    packetMs: 10,
    wakeMs: 10,
    description: 'WebRTC: 48 kHz, 16-bit, mono, 10 ms',
  },
  telephony: {
    format: { sampleRate: 8_000, channels: 1, sample: 'mulaw' },
    packetMs: 20,
    description: 'telephony: 8 kHz, µ-law (G.711), mono, 20 ms',
  },
};
