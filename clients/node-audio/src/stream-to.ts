import { randomUUID } from 'node:crypto';
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { setTimeout as delay } from 'node:timers/promises';
import { checked, invalid } from './check';
import { AudioError } from './error';
import { FRAME_HEADER_BYTES, writeHeader } from './frame';
import { speaksHttp1 } from './http1';
import type { PacketReader, Reading } from './reader';
import { TIMEOUT_MS_MAX } from './timeout';
import type { Packet, StreamOptions, StreamSummary } from './types';

/** Waits between attempts to reach the server: doubled from the first to the last. */
const RETRY_MS = { first: 100, last: 2_000 };

/** Time for which a request waits for its response after its last byte, in ms. */
const ANSWER_MS = 30_000;

/** The same after an abort, in ms. */
const ANSWER_ABORTED_MS = 2_000;

/** A packet that waits for the network, in its slot. */
interface Held {
  packet: Packet;
  header: Buffer;
}

/** The server said that more attempts are of no use. */
class Refused extends AudioError {}

export async function streamTo(
  reader: PacketReader,
  url: string | URL,
  options: StreamOptions,
): Promise<StreamSummary> {
  checked.stream(options);
  return new Sender(reader, parsed(url), options).run();
}

function parsed(url: string | URL): URL {
  const found = URL.canParse(String(url)) ? new URL(url) : undefined;
  if (found === undefined) throw invalid(`the URL is '${String(url)}'; expected an absolute URL, as in https://host/path`);
  if (found.protocol !== 'http:' && found.protocol !== 'https:') {
    throw invalid(`the scheme of the URL is ${found.protocol}; expected http: or https:`);
  }
  return found;
}

/**
 * Sends a capture as a row of requests, one at a time. What was written to the network is released;
 * what was not goes into the next request when one fails. The server tells gaps by positions.
 */
class Sender {
  private readonly summary: StreamSummary = {
    packets: 0,
    bytes: 0,
    requests: 0,
    reconnects: 0,
    droppedFrames: 0,
    unconfirmedFrames: 0,
  };
  private readonly id = randomUUID();
  private readonly heldMax: number;
  private readonly maxRequestMs: number;
  private readonly maxRequestBytes: number;
  private readonly held: Held[] = [];
  private readonly headers: Buffer[] = [];
  private readonly reading: Reading;
  private session: ClientHttp2Session | undefined;
  /** The server has sent its SETTINGS: it speaks HTTP/2. */
  private hasSettings = false;
  private exchange: Exchange | undefined;
  private kick: () => void = () => {};
  private isWaiting = false;
  private reachedMs = performance.now();

  constructor(
    private readonly reader: PacketReader,
    private readonly url: URL,
    private readonly options: StreamOptions,
  ) {
    this.reading = reader.reading('a stream to a server');
    this.heldMax = options.maxHeldSlots ?? Math.max(1, reader.slots >> 1);
    this.maxRequestMs = options.maxRequestMs ?? 30_000;
    this.maxRequestBytes = options.maxRequestBytes ?? 8 << 20;
  }

  async run(): Promise<StreamSummary> {
    const { signal } = this.options;
    this.reading.begin();
    const abort = (): void => this.abort();
    signal?.addEventListener('abort', abort);
    try {
      while (!this.isAborted && (this.held.length > 0 || (await this.reading.wait()))) {
        if (!this.isAborted) await this.attempt();
      }
      return this.summary;
    } finally {
      signal?.removeEventListener('abort', abort);
      for (const { packet } of this.held) packet.release();
      this.session?.destroy();
      this.reading.end();
    }
  }

  /** Ends the request, whose response is waited for a short time only. */
  private abort(): void {
    this.reading.stop();
    this.exchange?.hasten();
    this.kick();
  }

  private get isAborted(): boolean {
    return this.options.signal?.aborted === true;
  }

  /** A request, or a pause when it failed. */
  private async attempt(): Promise<void> {
    const failedFor = (): number => performance.now() - this.reachedMs;
    this.reachedMs = performance.now();
    for (let pauseMs = RETRY_MS.first; ; pauseMs = Math.min(pauseMs * 2, RETRY_MS.last)) {
      try {
        return await this.request();
      } catch (error) {
        this.session?.destroy();
        this.session = undefined;
        if (this.isAborted) return;
        if (error instanceof Refused) throw error;
        const giveUpMs = this.options.giveUpMs ?? 30_000;
        if (failedFor() > giveUpMs) {
          const reason = (error as Error).message;
          throw new AudioError('ERR_STREAM', `${this.url.origin} has been unreachable for ${giveUpMs} ms: ${reason}`);
        }
        if (!this.hasSettings && (await speaksHttp1(this.url, this.options.ca))) {
          const message = `${this.url.origin} speaks HTTP/1.1 only; streamTo needs a server or gateway with HTTP/2`;
          throw new AudioError('ERR_STREAM', message);
        }
        this.summary.reconnects += 1;
        await delay(pauseMs, undefined, { signal: this.options.signal }).catch(() => {});
      }
    }
  }

  private async request(): Promise<void> {
    const stream = await this.begin();
    const exchange = new Exchange(stream, this.options.onResponse, this.summary.requests - 1, () => this.kick());
    this.exchange = exchange;
    const progress = { bytes: 0, frames: 0 };
    let isOld = false;
    const timer = setTimeout(() => {
      isOld = true;
      this.kick();
    }, Math.min(this.maxRequestMs, TIMEOUT_MS_MAX));
    try {
      for (const held of this.held) this.send(stream, held, progress);
      for (;;) {
        exchange.throwIfFailed();
        const isOver = isOld || progress.bytes >= this.maxRequestBytes;
        if (isOver || this.isAborted) break;
        const packet = this.held.length < this.heldMax ? this.reading.nextHeld() : undefined;
        if (packet !== undefined) this.take(stream, packet, progress);
        else if (this.reader.ended && this.held.length < this.heldMax) break;
        else await this.sleep();
      }
      stream.end();
      await exchange.answered();
      this.reachedMs = performance.now();
    } catch (error) {
      stream.destroy();
      this.summary.unconfirmedFrames += progress.frames;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  private async begin(): Promise<ClientHttp2Stream> {
    const { options, url, reader } = this;
    if (this.session === undefined || this.session.closed || this.session.destroyed) {
      this.session = connect(url.origin, options.ca === undefined ? {} : { ca: options.ca });
      // A failure is the request's too.
      this.session.on('error', () => {});
      this.session.once('remoteSettings', () => (this.hasSettings = true));
    }
    const token = typeof options.token === 'function' ? await options.token() : options.token;
    const { sampleRate, channels, sample } = reader.format;
    const stream = this.session.request(
      {
        ...options.headers,
        ':method': 'POST',
        ':path': url.pathname + url.search,
        'content-type': 'application/vnd.steppe.audio',
        'steppe-audio-stream': this.id,
        'steppe-audio-request': String(this.summary.requests),
        'steppe-audio-format': `rate=${sampleRate}; channels=${channels}; sample=${sample}`,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      { endStream: false },
    );
    this.summary.requests += 1;
    return stream;
  }

  private take(stream: ClientHttp2Stream, packet: Packet, progress: { bytes: number; frames: number }): void {
    const header = this.headers.pop() ?? Buffer.alloc(FRAME_HEADER_BYTES);
    writeHeader(header, packet);
    const held = { packet, header };
    this.held.push(held);
    this.summary.packets += 1;
    this.summary.droppedFrames += packet.droppedBefore;
    this.send(stream, held, progress);
  }

  /** Writes a slot in place: it is released when the network has it. */
  private send(stream: ClientHttp2Stream, held: Held, progress: { bytes: number; frames: number }): void {
    const { packet, header } = held;
    const { bytes } = packet;
    progress.bytes += header.length + bytes.length;
    progress.frames += packet.frames;
    this.summary.bytes += header.length + bytes.length;
    stream.cork();
    stream.write(header);
    stream.write(bytes, (error) => {
      // A failed request keeps its packets for the next.
      if (error == null && !stream.destroyed) this.release(held);
    });
    stream.uncork();
  }

  private release(held: Held): void {
    const at = this.held.indexOf(held);
    if (at < 0) return;
    this.held.splice(at, 1);
    held.packet.release();
    this.headers.push(held.header);
    this.kick();
  }

  /** Until there is a packet, the network took one, the request failed or is old enough. */
  private async sleep(): Promise<void> {
    const kicked = new Promise<void>((resolve) => (this.kick = resolve));
    if (!this.isWaiting && this.held.length < this.heldMax && !this.reader.ended && !this.reading.stopped) {
      this.isWaiting = true;
      void this.reading
        .wait()
        .catch(() => false)
        .finally(() => {
          this.isWaiting = false;
          this.kick();
        });
    }
    await kicked;
  }
}

/** The answer to a request. */
class Exchange {
  private status = 0;
  private failure: Error | undefined;
  private hasEnded = false;
  private answerMs = ANSWER_MS;
  private timer: NodeJS.Timeout | undefined;
  private tell: () => void = () => {};

  constructor(
    stream: ClientHttp2Stream,
    onResponse: StreamOptions['onResponse'],
    request: number,
    private readonly onFailure: () => void,
  ) {
    stream.on('response', (headers) => {
      this.status = headers[':status'] ?? 0;
      if (this.status >= 300) this.fail(this.refusal());
    });
    stream.on('data', (chunk: Buffer) => {
      if (this.status < 300) onResponse?.(chunk, request);
    });
    stream.on('end', () => {
      this.hasEnded = this.status > 0;
      this.tell();
    });
    stream.on('error', (error) => this.fail(error));
    stream.on('close', () => {
      const isReset = stream.rstCode !== constants.NGHTTP2_NO_ERROR;
      if (isReset || !this.hasEnded) this.fail(new Error('the request was reset or closed early'));
    });
  }

  throwIfFailed(): void {
    if (this.failure !== undefined) throw this.failure;
    if (this.hasEnded) throw new Error('the server responded before the request ended');
  }

  /** Waits for the response a short time only. */
  hasten(): void {
    this.answerMs = ANSWER_ABORTED_MS;
    this.limit();
  }

  private limit(): void {
    clearTimeout(this.timer);
    const { answerMs } = this;
    this.timer = setTimeout(() => this.fail(new Error(`no response within ${answerMs} ms`)), answerMs);
  }

  async answered(): Promise<void> {
    this.limit();
    while (!this.hasEnded && this.failure === undefined) {
      await new Promise<void>((resolve) => (this.tell = resolve));
    }
    clearTimeout(this.timer);
    if (this.failure !== undefined) throw this.failure;
  }

  private fail(error: Error): void {
    this.failure ??= error;
    this.tell();
    this.onFailure();
  }

  private refusal(): Error {
    const message = `the server responded with ${this.status}`;
    const mayPass = this.status >= 500 || this.status === 408 || this.status === 429;
    return mayPass ? new Error(message) : new Refused('ERR_STREAM', `${message}: check the URL and the token`);
  }
}
