import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import type { PacketReader, Reading } from './reader';
import { Tally } from './tally';

/** A copy of the next packet's bytes. `undefined`: the capture has ended, or the reading was stopped. */
async function nextCopy(reader: PacketReader, reading: Reading): Promise<Buffer | undefined> {
  const packet = reading.next() ?? ((await reading.wait()) ? reading.next() : undefined);
  if (packet === undefined) return undefined;
  reader.ring.count(Tally.fallbackCopies, 1);
  return Buffer.from(packet.bytes);
}

export function toReadable(reader: PacketReader): Readable {
  const reading = reader.reading('a stream');
  let hasBegun = false;
  return new Readable({
    async read() {
      try {
        if (!hasBegun) reading.begin();
        hasBegun = true;
        const bytes = await nextCopy(reader, reading);
        if (!this.destroyed) this.push(bytes ?? null);
      } catch (error) {
        this.destroy(error as Error);
      }
    },
    destroy(error, callback) {
      reading.end();
      callback(error);
    },
  });
}

export function toWeb(reader: PacketReader): ReadableStream<Uint8Array> {
  const reading = reader.reading('a web stream');
  let hasBegun = false;
  return new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      try {
        if (!hasBegun) reading.begin();
        hasBegun = true;
        const bytes = await nextCopy(reader, reading);
        if (bytes !== undefined) return controller.enqueue(new Uint8Array(bytes));
      } catch (error) {
        reading.end();
        throw error;
      }
      // A stream that was cancelled is closed already.
      if (reading.stopped) return;
      reading.end();
      controller.close();
      controller.byobRequest?.respond(0);
    },
    cancel() {
      reading.end();
    },
  });
}
