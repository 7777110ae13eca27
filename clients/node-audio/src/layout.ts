// Generated from native/src/layout.rs: `UPDATE_EXPECT=1 cargo test -p steppe-audio --test layout` writes it.
// Layout of the memory of a ring, which native/MEMORY.md specifies.

export const MAGIC = 1398030677;
export const VERSION = 4;
export const COUNTERS = 256;
export const QUEUE_OFFSET = 512;
export const RECORD_BYTES = 64;

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
  rate: 9,
  channels: 10,
  sample: 11,
  packetFrames: 12,
  head: 16,
  tail: 32,
  doorbell: 48,
  waiters: 49,
  closed: 50,
  events: 51,
  readersBegun: 52,
  readersEnded: 53,
} as const;

/** Values of `word::DOORBELL`. */
export const Doorbell = {
  silent: 0,
  rung: 1,
  events: 2,
} as const;

/** Values of `word::CLOSED`. */
export const Closed = {
  open: 0,
  ended: 1,
  failed: 2,
} as const;

/** 64-bit counters, by index from `COUNTERS`. The producer writes them all. */
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
  estimatedFrames: 19,
  wallOffsetNs: 20,
  wallErrorNs: 21,
  wallSteps: 22,
  timeErrorNs: 23,
  startedNs: 24,
  unheardFrames: 25,
} as const;

/** Words of a record of the slot table. Those of 64 bits have two. */
export const Record = {
  state: 0,
  frames: 1,
  bytes: 2,
  flags: 3,
  sequence: 4,
  position: 6,
  timeNs: 8,
  lost: 10,
  estimated: 11,
  publishedNs: 12,
  peak: 14,
  rms: 15,
} as const;

/** Values of `record::STATE`. A slot that is held has the number of its holders there. */
export const State = {
  free: 0,
  filled: 1073741824,
  writing: 536870912,
} as const;

/** Bits of `record::FLAGS`. */
export const Flag = {
  silent: 1,
  discontinuity: 2,
  timeEstimated: 4,
  voiceBegins: 8,
} as const;

/** Bytes of a sample. */
export const SAMPLE_BYTES = { s16: 2, f32: 4, mulaw: 1 } as const;

/** Sample formats by their number in the control block. */
export const SAMPLES = [undefined, 's16', 'f32', 'mulaw'] as const;
