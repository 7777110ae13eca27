import type { AudioErrorCode } from './types';

/** Error that this package throws and emits, with a `code` for programs and a `message` that suggests a remedy. */
export class AudioError extends Error {
  override readonly name = 'AudioError';
  readonly code: AudioErrorCode;

  constructor(code: AudioErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** An error of the native side, or of anything else, as one of ours. */
export function toAudioError(error: unknown): AudioError {
  if (error instanceof AudioError) return error;
  const { code, message } = error as { code?: string; message?: string };
  const isOurs = code?.startsWith('ERR_') === true;
  return new AudioError(isOurs ? (code as AudioErrorCode) : 'ERR_SYSTEM', message ?? String(error));
}
