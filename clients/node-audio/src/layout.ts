/**
 * Where things stand in the memory of a ring: `native/MEMORY.md` says it, and native code has the
 * same numbers. JavaScript allocates the memory, and native code describes it in its first words.
 *
 * @internal
 */

/** Words of the control block, as indices of an `Int32Array`. */
export const Control = {
  magic: 0,
  version: 1,
  slots: 2,
  slotBytes: 3,
  stride: 4,
  queue: 5,
  queueMask: 6,
  table: 7,
  data: 8,
  sampleRate: 9,
  channels: 10,
  sample: 11,
  packetFrames: 12,
  head: 16,
  tail: 32,
  doorbell: 48,
  waiters: 49,
  closed: 50,
  events: 51,
} as const;

export const MAGIC = 0x53_54_41_55;
export const VERSION = 1;

/** Bytes of the control block with its counters: the queue begins here. */
export const CONTROL_BYTES = 512;
export const COUNTERS = 256;

/** 64-bit counters of the producer, by index from `COUNTERS`. */
export const Counter = {
  frames: 0,
  packets: 1,
  bytes: 2,
  droppedPackets: 3,
  droppedFrames: 4,
  lostFrames: 5,
  silentFrames: 6,
  gatedFrames: 7,
  pausedFrames: 8,
  hits: 9,
  misses: 10,
  copiedFrames: 11,
  wakes: 12,
  discontinuities: 13,
  reconnects: 14,
  queuedMax: 15,
  latencyNs: 16,
  filledFrames: 17,
  lostEvents: 18,
} as const;

export const RECORD_BYTES = 64;

/** Words of a record of the slot table, from its first. Those of 64 bits have two. */
export const Record = {
  state: 0,
  frames: 1,
  bytes: 2,
  flags: 3,
  sequence: 4,
  position: 6,
  timeNs: 8,
  lostBefore: 10,
  publishedNs: 12,
  peak: 14,
  rms: 15,
} as const;

export const State = { free: 0, writing: 0x2000_0000, filled: 0x4000_0000 } as const;

export const Flag = { silent: 1, discontinuity: 2, timeEstimated: 4, voiceBegins: 8 } as const;

export const SAMPLE_BYTES = { s16: 2, f32: 4, mulaw: 1 } as const;
export const SAMPLES = [undefined, 's16', 'f32', 'mulaw'] as const;

/**
 * What the reader writes, in memory of its own, as indices of a `Float64Array`: a Worker that reads
 * is seen by the capture's thread.
 */
export const Tally = { copies: 0, fallbackCopies: 1, droppedFrames: 2 } as const;

/** Buckets of the histogram of latencies: four to a doubling. */
export const LATENCY_BUCKETS = 112;

/**
 * Words of the same memory, behind the floats: what is read and written for every packet or wake, as
 * integers. A double is allocated where code is not optimized yet, or passes it on.
 */
export const TallyWord = {
  /** The low word of the position after the last packet that was taken. */
  position: 8,
  /** The floats of its level. */
  peak: 9,
  rms: 10,
  /** Packets that were taken: the low word and the high one. */
  delivered: 11,
  deliveredHigh: 12,
  held: 13,
  heldPeak: 14,
  /** Packets before which frames were missing; wraps. */
  gaps: 15,
  /** In ticks. */
  latencyMax: 16,
  /** The first of the histogram. */
  latency: 17,
} as const;

export const TALLY_BYTES = 8 * Math.ceil((TallyWord.latency + LATENCY_BUCKETS) / 2);
