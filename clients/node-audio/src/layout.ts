/**
 * Where things stand in a ring: one `SharedArrayBuffer` that JavaScript allocates and the native
 * side writes. `native/src/ring.rs` has the same numbers. All is little endian; parts begin at
 * multiples of 64 bytes: the control block, the filled queue, the slot table, the data.
 *
 * The filled queue has a power of two of entries, at least `slots`. `head` and `tail` count packets
 * published and taken, as u32 that wrap. Whoever takes one (a reader, or the producer that drops the
 * oldest) moves `tail` by compare-exchange, and the slot named by the entry it passed is his.
 *
 * @internal
 */

/** Words of the control block, as indices of an `Int32Array`. */
export const Control = {
  /** {@link MAGIC}. */
  magic: 0,
  slots: 1,
  slotBytes: 2,
  /** Bytes from one slot's data to the next: a multiple of 64. */
  stride: 3,
  queueOffset: 4,
  /** Entries of the filled queue less 1. */
  queueMask: 5,
  tableOffset: 6,
  dataOffset: 7,
  /** 1: nothing follows what is in the queue. */
  closed: 8,
  /** Events that wait for `takeEvents`. */
  events: 9,
  head: 16,
  tail: 32,
  /** 1: the native side has called, and JavaScript has not begun to drain. */
  doorbell: 48,
  /** Threads that sleep in `wait`. */
  waiters: 49,
} as const;

/** Counters of the native side: the index of the lower word of a u64. */
export const Counter = {
  captured: 64,
  capturedFrames: 66,
  droppedFrames: 68,
  skipped: 70,
  gated: 72,
  hits: 74,
  misses: 76,
  copies: 78,
  wakes: 80,
} as const;

/** Counters of the reader, as indices of a `Float64Array`: it is one thread at a time. */
export const Reader = {
  delivered: 48,
  held: 49,
  heldPeak: 50,
  fallbackCopies: 51,
  readerCopies: 52,
  latencyMaxMs: 53,
} as const;

/** The reader's histogram of latencies: index of the first `Int32` word, and how many there are. */
export const Latency = { first: 112, buckets: 128 } as const;

/** Bytes of the control block. */
export const CONTROL_BYTES = 1024;

/** "STA" and the version of the layout. */
export const MAGIC = 0x53_54_41_01;

/** Bytes of an entry of the slot table. */
export const SLOT_ENTRY_BYTES = 64;

/** Words of a slot's entry, as indices of an `Int32Array` from its begin. */
export const Slot = {
  state: 0,
  frames: 1,
  bytes: 2,
  flags: 3,
  /** u64s. */
  sequence: 4,
  timeNs: 6,
  droppedBefore: 8,
} as const;

export const State = { free: 0, filled: 1, held: 2 } as const;

export const Flag = { silent: 1, discontinuity: 2, timeEstimated: 4 } as const;

const align = (bytes: number): number => Math.ceil(bytes / 64) * 64;

/** Offsets and sizes of a ring. */
export interface Geometry {
  slots: number;
  slotBytes: number;
  stride: number;
  queueOffset: number;
  queueMask: number;
  tableOffset: number;
  dataOffset: number;
  totalBytes: number;
}

export function geometry(slots: number, slotBytes: number): Geometry {
  const entries = 2 ** Math.ceil(Math.log2(slots));
  const stride = align(slotBytes);
  const queueOffset = CONTROL_BYTES;
  const tableOffset = queueOffset + align(entries * 4);
  const dataOffset = tableOffset + slots * SLOT_ENTRY_BYTES;
  return {
    slots,
    slotBytes,
    stride,
    queueOffset,
    queueMask: entries - 1,
    tableOffset,
    dataOffset,
    totalBytes: dataOffset + slots * stride,
  };
}

/** Allocates a ring and writes its control block: the native side finds its parts there. */
export function allocate(slots: number, slotBytes: number): SharedArrayBuffer {
  const g = geometry(slots, slotBytes);
  const memory = new SharedArrayBuffer(g.totalBytes);
  const control = new Int32Array(memory, 0, CONTROL_BYTES / 4);
  control[Control.slots] = g.slots;
  control[Control.slotBytes] = g.slotBytes;
  control[Control.stride] = g.stride;
  control[Control.queueOffset] = g.queueOffset;
  control[Control.queueMask] = g.queueMask;
  control[Control.tableOffset] = g.tableOffset;
  control[Control.dataOffset] = g.dataOffset;
  control[Control.magic] = MAGIC;
  return memory;
}
