// The bench's verdict on two builds, on planted data.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Draws, median, medianInterval, order, ratios, verdict } from '../bench/comparison.mjs';

/** Costs of rounds: today's build takes `slower` times the other's, the machine drifts, runs are off by up to `noise`. */
function costs(rounds, slower, noise) {
  const draws = new Draws(1);
  const found = { now: [], before: [] };
  for (let round = 0; round < rounds; round += 1) {
    const run = (base) => base * (1 + 0.02 * round) * (1 + noise * (draws.below(2_001) / 1_000 - 1));
    found.now.push(run(slower), run(slower));
    found.before.push(run(1), run(1));
  }
  return found;
}

test('the same build is no slower, and a planted slow-down of 3 % is shown', () => {
  assert.match(verdict(costs(15, 1, 0.02)), /^no slower: yes \(interval 0\.9\d\d to 1\.0\d\d, \d\.\d % wide\)$/);
  assert.match(verdict(costs(15, 0.9, 0.02)), /^no slower: yes/);
  assert.match(verdict(costs(15, 1.03, 0.01)), /^no slower: no/);
});

test('what tells too little is said to', () => {
  assert.match(verdict(costs(15, 1, 0.2)), /^no slower: too wide \(interval/);
  assert.equal(verdict(costs(5, 1, 0.001)), 'no slower: too wide (5 complete rounds, an interval takes 6)');
});

test('a drift within a round is in no ratio', () => {
  const [ratio] = ratios({ now: [1, 1.331], before: [1.1, 1.21] });
  assert.ok(Math.abs(ratio - 1) < 1e-12);
});

test('the interval is that of steppe-bench', () => {
  assert.deepEqual(medianInterval([2]), [2, 2]);
  const [low, high] = medianInterval([0.98, 1.02, 1.0, 1.01, 0.99, 1.03, 0.97]);
  assert.deepEqual([low, high], [0.98, 1.02]);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

test('both orders come', () => {
  const draws = new Draws(1);
  const first = Array.from({ length: 20 }, () => order(draws)[0]);
  assert.ok(first.includes('now') && first.includes('before'));
});
