/**
 * Memory that the reader of a ring writes and the capture's thread reads, so that a Worker that reads is
 * counted too. Its layout is TypeScript's alone.
 *
 * @internal
 */

/** Indices of a `Float64Array`. */
export const Tally = { copies: 0, fallbackCopies: 1, droppedFrames: 2, estimatedFrames: 3 } as const;

/** Buckets of the histogram of latencies: four to a doubling. */
export const LATENCY_BUCKETS = 112;

/**
 * Indices of an `Int32Array` over the same memory, behind the floats: values that are read and written for
 * every packet or wake. A double is allocated where code is not optimized yet, or passes it on.
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
  /** The low word of the frames that were estimated before the last packet that was taken. */
  estimated: 17,
  /** The first of the histogram. */
  latency: 18,
} as const;

export const TALLY_BYTES = 8 * Math.ceil((TallyWord.latency + LATENCY_BUCKETS) / 2);
