// The addon, and a reader of a ring's memory by words alone.
import { createRequire } from 'node:module';

// Where the build leaves the addon; `STEPPE_AUDIO_NATIVE` names another.
const triples = { linux: 'linux-x64-gnu', darwin: 'darwin-arm64', win32: 'win32-x64-msvc' };
const built = `../native/steppe-audio.${triples[process.platform]}.node`;
export const addon = createRequire(import.meta.url)(process.env.STEPPE_AUDIO_NATIVE ?? built);

const { Control, Counter, COUNTERS, Flag, Record, RECORD_BYTES } = createRequire(import.meta.url)('../dist/layout.js');
export const { head: HEAD, tail: TAIL, doorbell: DOORBELL, closed: CLOSED, events: EVENTS } = Control;
export const { silent: SILENT, discontinuity: DISCONTINUITY } = Flag;

export const defaults = {
  sources: [{ kind: 'synthetic', signal: 'probe' }],
  sampleRate: 48_000,
  channels: 2,
  sample: 's16',
  packetFrames: 480,
  slots: 16,
  slotBytes: 1_920,
  overrun: 'drop-oldest',
  silence: 'emit',
};

export class Reader {
  /** Frames that the source lost before the last packet, in all, and those that it estimated. */
  lost = 0;
  estimated = 0;

  constructor(memory) {
    this.memory = memory;
    this.words = new Int32Array(memory);
    this.wide = new BigUint64Array(memory);
  }

  take() {
    const { words } = this;
    for (;;) {
      const tail = Atomics.load(words, TAIL);
      if (tail === Atomics.load(words, HEAD)) return undefined;
      const entry = (words[Control.queue] >> 2) + (tail & words[Control.queueMask]);
      const slot = Atomics.load(words, entry);
      if (Atomics.compareExchange(words, TAIL, tail, (tail + 1) | 0) !== tail) continue;
      const record = this.record(slot);
      Atomics.store(words, record, 1);
      return { slot, ...this.read(record, words[Control.data] + slot * words[Control.stride]) };
    }
  }

  /** Index of the first word of a slot's record. */
  record(slot) {
    return (this.words[Control.table] + slot * RECORD_BYTES) >> 2;
  }

  read(record, data) {
    const word = (field) => this.words[record + field];
    const wide = (field) => Number(this.wide[(record + field) >> 1]);
    const { lost, estimated } = this;
    [this.lost, this.estimated] = [word(Record.lost), word(Record.estimated)];
    return {
      frames: word(Record.frames),
      flags: word(Record.flags),
      sequence: wide(Record.sequence),
      position: wide(Record.position),
      timeNs: wide(Record.timeNs),
      lostBefore: (this.lost - lost) >>> 0,
      estimatedBefore: (this.estimated - estimated) >>> 0,
      publishedNs: wide(Record.publishedNs),
      bytes: new Uint8Array(this.memory, data, word(Record.bytes)),
    };
  }

  release({ slot }) {
    return Atomics.sub(this.words, this.record(slot), 1);
  }

  counter(name) {
    return Number(this.wide[COUNTERS / 8 + Counter[name]]);
  }
}

/** A capture that was not started; `onDoorbell` is told who rings. */
export function open(options, onDoorbell) {
  const all = { ...defaults, ...options };
  const memory = new SharedArrayBuffer(addon.layout(all.slots, all.slotBytes).bytes);
  const reader = new Reader(memory);
  const native = new addon.Native(all, new Uint8Array(memory), () => onDoorbell());
  return { native, reader };
}

/**
 * A capture that hands packets and events on until it is closed: `each` is given packets, which are
 * released when it returns; `until(kind)` waits for an event.
 */
export class Capture {
  events = [];
  waiting = [];

  constructor(options, each) {
    this.each = each;
    const { native, reader } = open(options, () => this.drain());
    Object.assign(this, { native, reader });
    native.start();
  }

  drain() {
    const { words } = this.reader;
    Atomics.store(words, DOORBELL, 0);
    const isClosed = Atomics.load(words, CLOSED) !== 0;
    for (let packet = this.reader.take(); packet; packet = this.reader.take()) {
      this.each(packet);
      this.reader.release(packet);
    }
    if (Atomics.exchange(words, EVENTS, 0) === 1) this.events.push(...this.native.events());
    this.waiting = this.waiting.filter((one) => !one.look());
    if (isClosed) this.native.close();
  }

  /** Waits until `test` gives something. */
  until(test) {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = test();
        if (found) return resolve(found) ?? true;
        const failed = this.events.find(({ kind }) => kind === 'failed' || kind === 'ended');
        if (failed) return reject(new Error(failed.message ?? 'it ended')) ?? true;
        return false;
      };
      if (!look()) this.waiting.push({ look });
    });
  }

  event(kind) {
    return this.until(() => this.events.find((event) => event.kind === kind));
  }

  close() {
    this.native.close();
  }
}
