import { bucketEndMs, msOf } from './latency';
import { Control, RECORD_BYTES, State } from './layout';
import type { RingReader } from './ring';
import { LATENCY_BUCKETS, Tally, TallyWord } from './tally';
import type { CaptureStats, Level } from './types';

const decibels = (value: number): number => 20 * Math.log10(value);

export function levelOf(peak: number, rms: number): Level {
  return { peak, rms, peakDb: decibels(peak), rmsDb: decibels(rms) };
}

export function statsOf(reader: RingReader, delayFrames: number): CaptureStats {
  const { ring } = reader;
  const counter = reader.counter.bind(reader);
  const tally = (index: number): number => ring.tally[index] as number;
  const [hits, misses] = [counter('hits'), counter('misses')];
  const [overrunFrames, lostFrames] = [counter('droppedFrames'), counter('lostFrames')];
  const frames = counter('frames');
  const copiedFrames = counter('copiedFrames');
  // Frames that arrived: one that the source lost was never copied.
  const arrived = frames - lostFrames;
  return {
    captured: counter('packets'),
    capturedFrames: frames,
    delivered: reader.delivered,
    droppedFrames: overrunFrames + lostFrames,
    overrunFrames,
    lostFrames,
    estimatedFrames: counter('estimatedFrames'),
    filledFrames: counter('filledFrames'),
    unheardFrames: counter('unheardFrames'),
    silentFrames: counter('silentFrames'),
    gatedFrames: counter('gatedFrames'),
    pausedFrames: counter('pausedFrames'),
    discontinuities: counter('discontinuities'),
    reconnects: counter('reconnects'),
    slots: slotsOf(reader),
    hits,
    misses,
    reuse: hits + misses === 0 ? 1 : hits / (hits + misses),
    copiedFrames,
    copiesPerPacket: arrived === 0 ? 0 : copiedFrames / arrived,
    copies: tally(Tally.copies),
    fallbackCopies: tally(Tally.fallbackCopies),
    wakes: counter('wakes'),
    wallSteps: counter('wallSteps'),
    latencyMs: latencyOf(ring.tallyWords),
    resamplerDelayMs: (delayFrames * 1e3) / ring.sampleRate,
  };
}

function slotsOf({ ring }: RingReader): CaptureStats['slots'] {
  const counts = { free: 0, filled: 0, held: 0 };
  for (let slot = 0; slot < ring.slots; slot += 1) {
    const state = Atomics.load(ring.words, ring.word(Control.table) / 4 + (slot * RECORD_BYTES) / 4);
    if (state === State.free) counts.free += 1;
    else if (state === State.filled || state === State.writing) counts.filled += 1;
    else counts.held += 1;
  }
  return { total: ring.slots, ...counts, heldPeak: ring.tallyWords[TallyWord.heldPeak] as number };
}

/** Percentiles of the histogram: the upper bound of the bucket that has them. */
function latencyOf(words: Int32Array): CaptureStats['latencyMs'] {
  const counts = words.subarray(TallyWord.latency, TallyWord.latency + LATENCY_BUCKETS);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const max = msOf(words[TallyWord.latencyMax] as number);
  const percentile = (share: number): number => {
    let left = total * share;
    const bucket = counts.findIndex((count) => (left -= count) <= 0);
    return total === 0 ? 0 : Math.min(max, bucketEndMs(bucket));
  };
  return { p50: percentile(0.5), p90: percentile(0.9), p99: percentile(0.99), max };
}
