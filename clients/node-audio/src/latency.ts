/**
 * Latencies as integers, which nothing allocates: ticks of 1,024 ns, in 32 bits that wrap after 73 minutes.
 *
 * @internal
 */
import { LATENCY_BUCKETS } from './tally';

const TICKS_PER_MS = 1e6 / 1_024;

/** A time of 64 bits, in ns, whose low word is at this index. */
export function ticksAt(words: Int32Array, index: number): number {
  return ((words[index] as number) >>> 10) | ((words[index + 1] as number) << 22);
}

export function ticksOf(ms: number): number {
  return (ms * TICKS_PER_MS) | 0;
}

export function msOf(ticks: number): number {
  return ticks / TICKS_PER_MS;
}

/** The bucket of so many ticks, from 0 on: a quarter of a doubling. */
export function bucketOf(ticks: number): number {
  if (ticks < 4) return ticks;
  const exponent = 31 - Math.clz32(ticks);
  return Math.min(LATENCY_BUCKETS - 1, 4 * (exponent - 1) + ((ticks >> (exponent - 2)) & 3));
}

/** Upper bound of the latencies in a bucket, in ms. */
export function bucketEndMs(bucket: number): number {
  return msOf(bucket < 4 ? bucket + 1 : (5 + (bucket & 3)) * 2 ** ((bucket >> 2) - 1));
}
