// Two builds side by side, as `steppe-bench` compares them (bench/src/before/): a round runs each twice, there and back,
// and gives one ratio; the interval is that of the median over the rounds, by the percentile bootstrap; an interval that
// is at most 4 % wide and contains 1.00 or lies below it says "no slower".

const RESAMPLES = 4_000;
/** Of an interval that tells enough. */
export const WIDTH_MAX = 0.04;
/** Fewer ratios than that have no interval of 95 %. */
export const ROUNDS_MIN = 6;
const MASK = (1n << 64n) - 1n;

/** SplitMix64, with the same draws for the same seed. */
export class Draws {
  constructor(seed) {
    this.state = BigInt(seed);
  }

  below(bound) {
    this.state = (this.state + 0x9e3779b97f4a7c15n) & MASK;
    let z = this.state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
    return Number((z ^ (z >> 31n)) % BigInt(bound));
  }
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** A 95 % interval of the median. */
export function medianInterval(values) {
  const draws = new Draws(0x9e3779b97f4a7c15n);
  const resampled = () => median(values.map(() => values[draws.below(values.length)]));
  const medians = Array.from({ length: RESAMPLES }, resampled).sort((a, b) => a - b);
  return [medians[RESAMPLES / 40], medians[RESAMPLES - 1 - RESAMPLES / 40]];
}

/** One ratio a round: elements 2 i and 2 i + 1 of both are from round i. */
export function ratios({ now, before }) {
  const rounds = Array.from({ length: Math.floor(now.length / 2) }, (_, round) => 2 * round);
  return rounds.map((at) => Math.sqrt((now[at] * now[at + 1]) / (before[at] * before[at + 1])));
}

/** The verdict on costs of an operation, in words. */
export function verdict(costs) {
  const found = ratios(costs);
  if (found.length < ROUNDS_MIN) return `no slower: too wide (${found.length} complete rounds, an interval takes ${ROUNDS_MIN})`;
  const [low, high] = medianInterval(found);
  const answer = low > 1 ? 'no' : high - low <= WIDTH_MAX ? 'yes' : 'too wide';
  return `no slower: ${answer} (interval ${low.toFixed(3)} to ${high.toFixed(3)}, ${((high - low) * 100).toFixed(1)} % wide)`;
}

/** ABBA or BAAB of the two builds, by chance. */
export function order(draws) {
  return draws.below(2) === 1 ? ['before', 'now', 'now', 'before'] : ['now', 'before', 'before', 'now'];
}
