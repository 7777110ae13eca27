import { AudioError } from './error';
import { RingReader, type ReaderMode } from './ring';
import { TALLY_BYTES } from './tally';
import type { AudioFormat, ChannelPosition, Packet } from './types';

/**
 * Packets of a capture for one consumer at a time: listeners, a loop, batches, a stream, a recording or a
 * Worker. Every consumer is a `Reading`. This knows neither the device nor the events of the capture.
 */
export class PacketReader {
  readonly ring: RingReader;
  readonly tally = new Float64Array(new SharedArrayBuffer(TALLY_BYTES));
  readonly format: Readonly<Required<AudioFormat>>;
  readonly packetFrames: number;
  readonly slots: number;
  private current: Reading | undefined;
  private waking: Promise<void> | undefined;
  private resolveWaking: () => void = () => {};
  private hasEnded = false;
  private failure: AudioError | undefined;
  private isEndNoted = false;
  /** Called once what is missing after the last packet was counted. */
  onEndNoted: () => void = () => {};

  constructor(
    readonly memory: SharedArrayBuffer,
    mode: ReaderMode,
    channelMap: readonly ChannelPosition[],
  ) {
    this.ring = new RingReader(memory, this.tally, mode);
    const { sampleRate, channels, sample, packetFrames, slots } = this.ring.ring;
    this.format = { sampleRate, channels, sample, channelMap };
    this.packetFrames = packetFrames;
    this.slots = slots;
  }

  /** A consumer that has not begun; messages call it by `name`. */
  reading(name: string): Reading {
    return new Reading(this, name);
  }

  /** True once the capture has ended. Packets in the ring can still be read. */
  get ended(): boolean {
    return this.hasEnded;
  }

  /** Ends the capture: consumers get the packets in the ring, then the failure or the end. */
  finish(failure: AudioError | undefined): void {
    this.hasEnded = true;
    this.failure = failure;
    this.wake();
    this.current?.interrupt();
  }

  /** Counts what is missing after the last packet, once the capture has ended and all packets were read. */
  noteEnd(): void {
    if (!this.hasEnded || this.isEndNoted || !this.ring.isEmpty) return;
    this.isEndNoted = true;
    this.ring.noteEnd();
    this.onEndNoted();
  }

  /** Makes all that wait look again. */
  wake(): void {
    if (this.waking === undefined) return;
    this.waking = undefined;
    this.resolveWaking();
  }

  /** Resolves with the next `wake()`. */
  woken(): Promise<void> {
    this.waking ??= new Promise<void>((resolve) => (this.resolveWaking = resolve));
    return this.waking;
  }

  throwIfFailed(): void {
    if (this.failure !== undefined) throw this.failure;
  }

  claim(reading: Reading): void {
    if (this.current === reading) return;
    if (this.current !== undefined) {
      const message = `the capture already has a reader (${this.current.name}): only one at a time is allowed`;
      throw new AudioError('ERR_BUSY', message);
    }
    this.current = reading;
  }

  leave(reading: Reading): void {
    if (this.current !== reading) return;
    this.ring.endLoan();
    this.current = undefined;
    this.wake();
  }
}

/**
 * One consumer of a capture, from `begin` to `end`. `stop` ends its waits, so that an abort or a destroyed
 * stream is noticed while no sound comes.
 */
export class Reading {
  private hasBegun = false;
  private isStopped = false;
  private endSleep: () => void = () => {};

  constructor(
    private readonly reader: PacketReader,
    readonly name: string,
  ) {}

  /** @throws `ERR_BUSY` if the capture has another reader. */
  begin(): void {
    this.reader.claim(this);
    this.hasBegun = true;
    this.isStopped = false;
  }

  /** Ends the loan of the last packet and lets another consumer begin. Held packets stay valid. */
  end(): void {
    this.stop();
    this.hasBegun = false;
    this.reader.leave(this);
  }

  stop(): void {
    if (this.isStopped) return;
    this.isStopped = true;
    this.reader.wake();
    this.interrupt();
  }

  /** True once `stop` or `end` was called. */
  get stopped(): boolean {
    return this.isStopped;
  }

  /** True once the capture has ended: nothing follows the packets in the ring. */
  get isLast(): boolean {
    return this.reader.ended;
  }

  /** The next packet, on loan. */
  next(): Packet | undefined {
    return this.hasBegun ? this.reader.ring.take() : undefined;
  }

  /** The next packet, held until it is released. */
  nextHeld(): Packet | undefined {
    return this.hasBegun ? this.reader.ring.takeHeld() : undefined;
  }

  /** Waits for packets. False: there will be none, or `stop` was called. Rejects if the capture failed. */
  async wait(): Promise<boolean> {
    const { reader } = this;
    while (!this.isStopped && reader.ring.isEmpty) {
      if (reader.ended) {
        reader.noteEnd();
        reader.throwIfFailed();
        return false;
      }
      await reader.woken();
    }
    return !this.isStopped;
  }

  /** Sleeps, at most until the capture ends or `stop` is called. */
  async sleep(ms: number): Promise<void> {
    if (this.isStopped || this.reader.ended) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.endSleep = resolve;
      timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
  }

  /** Ends a sleep. */
  interrupt(): void {
    this.endSleep();
  }
}

/**
 * A generator over a reading whose `return()` also ends a wait for packets: that of an async generator
 * function would wait for the next packet.
 */
export function stoppable<T>(
  reading: Reading,
  generator: AsyncGenerator<T, void, undefined>,
): AsyncGenerator<T, void, undefined> {
  return {
    next: () => generator.next(),
    return(value) {
      reading.stop();
      return generator.return(value);
    },
    throw(error) {
      reading.stop();
      return generator.throw(error);
    },
    async [Symbol.asyncDispose]() {
      await this.return();
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** Packets one by one, each on loan until the next is requested. */
export function packets(reader: PacketReader): AsyncGenerator<Packet, void, undefined> {
  const reading = reader.reading('a for await loop');
  return stoppable(reading, loop(reading));
}

async function* loop(reading: Reading): AsyncGenerator<Packet, void, undefined> {
  reading.begin();
  try {
    for (;;) {
      const packet = reading.next();
      if (packet !== undefined) yield packet;
      else if (!(await reading.wait())) return;
    }
  } finally {
    reading.end();
  }
}
