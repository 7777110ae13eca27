import { constants, open as openCallback } from 'node:fs';
import { open, stat, type FileHandle } from 'node:fs/promises';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { AudioError } from './error';

/** Opens a descriptor that its user closes: a `FileHandle` closes it when it is collected. */
const openDescriptor = promisify(openCallback);

/** Target of a recording. Buffers are read in place until `append` resolves. */
export interface Sink {
  /** True for a file, whose start can be overwritten. */
  readonly isSeekable: boolean;
  /** Writes all buffers at the end; reports bytes as they are written. */
  append(buffers: readonly Buffer[], onWritten: (bytes: number) => void): Promise<void>;
  /** Overwrites the start of a file. */
  overwrite(head: Buffer): Promise<void>;
  close(): Promise<void>;
  /** Fails what waits for a reader that has taken nothing for so long. */
  abandonAfter(ms: number): void;
}

/** Interval at which a FIFO without a reader is opened again, in ms. */
const FIFO_RETRY_MS = 100;

/** Opens a file, a FIFO or a device. `isStopped` ends the wait for the reader of a FIFO. */
export async function openSink(path: string, isStopped: () => boolean): Promise<Sink> {
  const isFifo = await stat(path).then((found) => found.isFIFO(), () => false);
  if (isFifo) return new StreamSink(await openFifo(path, isStopped));
  const handle = await open(path, 'w');
  const isSeekable = await handle.stat().then((found) => found.isFile(), () => false);
  return new FileSink(handle, isSeekable);
}

/** An open for writing that would block a thread until the FIFO has a reader fails instead, and is repeated. */
async function openFifo(path: string, isStopped: () => boolean): Promise<Socket> {
  for (;;) {
    try {
      const fd = await openDescriptor(path, constants.O_WRONLY | constants.O_NONBLOCK);
      return new Socket({ fd, readable: false, writable: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENXIO' || isStopped()) throw error;
      await delay(FIFO_RETRY_MS);
    }
  }
}

class FileSink implements Sink {
  private size = 0;

  constructor(
    private readonly handle: FileHandle,
    readonly isSeekable: boolean,
  ) {}

  async append(buffers: readonly Buffer[], onWritten: (bytes: number) => void): Promise<void> {
    let left = [...buffers];
    while (left.length > 0) {
      // Positions make a write that failed repeatable; a device has none.
      const { bytesWritten } = await this.handle.writev(left, this.isSeekable ? this.size : undefined);
      this.size += bytesWritten;
      onWritten(bytesWritten);
      left = rest(left, bytesWritten);
    }
  }

  async overwrite(head: Buffer): Promise<void> {
    await this.handle.write(head, 0, head.length, 0);
  }

  async close(): Promise<void> {
    await this.handle.close();
  }

  abandonAfter(): void {}
}

/** The rest of buffers after so many bytes. */
function rest(buffers: Buffer[], bytes: number): Buffer[] {
  let at = 0;
  for (const [index, buffer] of buffers.entries()) {
    if (at + buffer.length > bytes) return [buffer.subarray(bytes - at), ...buffers.slice(index + 1)];
    at += buffer.length;
  }
  return [];
}

/** A stream of Node.js, which is ended with the recording; standard output stays open, as `pipe()` leaves it. */
export class StreamSink implements Sink {
  readonly isSeekable = false;
  private failure: Error | undefined;
  private fail: (error: Error) => void = () => {};
  private progressMs = performance.now();

  /** `onFailure` is called when the stream fails or is destroyed, also while nothing is written. */
  constructor(
    private readonly stream: Writable,
    onFailure: () => void = () => {},
  ) {
    const failed = (error: Error): void => {
      this.failure ??= error;
      this.fail(this.failure);
      onFailure();
    };
    stream.on('error', failed);
    stream.on('close', () => {
      if (!stream.writableFinished) failed(new AudioError('ERR_FILE', 'the stream was destroyed'));
    });
  }

  async append(buffers: readonly Buffer[], onWritten: (bytes: number) => void): Promise<void> {
    if (this.failure === undefined && this.stream.destroyed) throw new AudioError('ERR_FILE', 'the stream was destroyed');
    if (this.failure !== undefined) throw this.failure;
    this.progressMs = performance.now();
    await new Promise<void>((resolve, reject) => {
      this.fail = reject;
      let left = buffers.length;
      for (const buffer of buffers) {
        this.stream.write(buffer, (error) => {
          if (error != null) return reject(error);
          this.progressMs = performance.now();
          onWritten(buffer.length);
          left -= 1;
          if (left === 0) resolve();
        });
      }
    });
  }

  async overwrite(): Promise<void> {}

  async close(): Promise<void> {
    const { stream } = this;
    if (this.failure !== undefined) throw this.failure;
    if (stream === process.stdout || stream === process.stderr) return;
    await new Promise<void>((resolve, reject) => {
      this.fail = reject;
      stream.end(resolve);
    });
  }

  abandonAfter(ms: number): void {
    if (performance.now() - this.progressMs < ms) return;
    this.stream.destroy(new AudioError('ERR_FILE', `the reader took nothing for ${ms} ms after the recording was aborted`));
  }
}
