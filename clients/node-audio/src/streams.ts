import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import type { AudioCapture } from './capture';

/** Copies of packets' bytes, one after the other, until the capture ends. */
async function* copies(capture: AudioCapture): AsyncGenerator<Buffer, void, undefined> {
  for await (const packet of capture) {
    capture.countFallbackCopy();
    yield Buffer.from(packet.bytes);
  }
}

export function toReadable(capture: AudioCapture): Readable {
  return Readable.from(copies(capture), { objectMode: false });
}

export function toWeb(capture: AudioCapture): ReadableStream<Uint8Array> {
  const chunks = copies(capture);
  return new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (!done) return controller.enqueue(new Uint8Array(value));
      controller.close();
      controller.byobRequest?.respond(0);
    },
    async cancel() {
      await chunks.return();
    },
  });
}
