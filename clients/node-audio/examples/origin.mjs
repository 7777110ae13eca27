// Receives streams of `capture.streamTo`, reports received and missing frames, and verifies the samples
// of the synthetic `probe`: `node examples/origin.mjs [PORT] [--h2]`.
import { createServer } from 'node:http';
import { createServer as createH2Server } from 'node:http2';
import { fileURLToPath } from 'node:url';
import { FrameDecoder } from '@steppe/audio';

/** What arrived of one stream, over all of its requests. */
class Received {
  next = 0;
  frames = 0;
  gaps = [];
  duplicates = 0;
  wrong = 0;
  requests = new Set();

  constructor(format) {
    this.format = Object.fromEntries(format.split('; ').map((pair) => pair.split('=')));
  }

  see({ position, frames, samples }) {
    // A failed request may have delivered it already.
    if (position < this.next) return void (this.duplicates += frames);
    if (position > this.next) this.gaps.push({ at: this.next, frames: position - this.next });
    this.next = position + frames;
    this.frames += frames;
    if (this.format.sample === 's16') this.check(position, frames, samples);
  }

  check(position, frames, samples) {
    const channels = Number(this.format.channels);
    for (let frame = 0; frame < frames; frame += 1) {
      const value = samples.readInt16LE(frame * channels * 2);
      if (value !== ((position + frame) & 0x7fff)) this.wrong += 1;
    }
  }

  get gapFrames() {
    return this.gaps.reduce((sum, { frames }) => sum + frames, 0);
  }

  report() {
    const { next, frames, gapFrames, duplicates, wrong, requests } = this;
    return { next, frames, gapFrames, duplicates, wrong, requests: requests.size };
  }
}

/** A handler of requests, of HTTP/1.1 and HTTP/2, and what it received by stream. */
export function createOrigin() {
  const streams = new Map();
  async function handle(request, response) {
    const { headers } = request;
    const id = headers['steppe-audio-stream'];
    if (request.method !== 'POST' || id === undefined) return void response.writeHead(404).end();
    if (!streams.has(id)) streams.set(id, new Received(headers['steppe-audio-format']));
    const received = streams.get(id);
    received.requests.add(headers['steppe-audio-request']);
    const decoder = new FrameDecoder();
    try {
      for await (const chunk of request) {
        for (const frame of decoder.push(chunk)) received.see(frame);
      }
    } catch {
      // The request was cut off: the next one continues, and positions show the missing frames.
      return void response.destroy();
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(`${JSON.stringify(received.report())}\n`);
  }
  return { streams, handle };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const port = Number(process.argv[2] ?? 9001);
  const origin = createOrigin();
  const create = process.argv.includes('--h2') ? createH2Server : createServer;
  create((request, response) => {
    response.on('finish', () => {
      for (const [id, received] of origin.streams) console.log(id, JSON.stringify(received.report()));
    });
    void origin.handle(request, response);
  }).listen(port, '127.0.0.1', () => console.log(`receiving on 127.0.0.1:${port}`));
}
