import { getSystemErrorMap } from 'node:util';
import type { AudioErrorCode } from './types';

/** Error that this package throws and emits, with a `code` for programs and a `message` that suggests a remedy. */
export class AudioError extends Error {
  override readonly name = 'AudioError';
  readonly code: AudioErrorCode;

  constructor(code: AudioErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
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

/** Remedies for errors of files. */
const REMEDIES: Record<string, string> = {
  ENOSPC: 'free space on this file system, or record to another',
  EDQUOT: 'free space within the disk quota, or record to another file system',
  EFBIG: 'the file system or a limit of the process allows no larger file; use `roll`',
  ENOENT: 'create the folder first',
  EACCES: 'the user of this process may not write there',
  EPERM: 'the user of this process may not write there',
  EROFS: 'the file system is read-only',
  EISDIR: 'the path is a folder; add a file name',
  ENXIO: 'no process reads the FIFO',
  EPIPE: 'the reader has closed the pipe',
};

/** An error of a file as `ERR_FILE`, with its remedy and the state of the file; `cause` is the original. */
export function fileError(error: unknown, path: string, state?: string): AudioError {
  if (error instanceof AudioError && error.code !== 'ERR_FILE') return error;
  const { code, errno, message } = error as NodeJS.ErrnoException;
  const reason = errno === undefined ? undefined : getSystemErrorMap().get(errno)?.[1];
  const what = reason === undefined ? message : `${reason} (${code})`;
  const parts = [`cannot write ${path}: ${what}`, REMEDIES[code ?? ''], state].filter((part) => part !== undefined);
  return new AudioError('ERR_FILE', parts.join('; '), { cause: error });
}
