// The package beside its build of another commit: CPU time of the whole process a packet, each run in a process of its own.
// `npm run bench -- --before FOLDER [--rounds N]`; FOLDER is that commit's clients/node-audio, built (`npm run build`, `npm run
// build:native -- --release`), and so has to be this one. Packets are made up, 10,000 a second and as many as slots are free
// for; SECONDS a run as the variable says, 2 by default. The exit code says whether everything ran, not the verdict.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Draws, median, medianInterval, order, ratios, verdict } from './comparison.mjs';

const CASES = [
  ['ring', 10_000],
  ['worker', 10_000],
  ['ring', 0],
  ['worker', 0],
];
const ROUNDS = 10;

async function run(folder, mode, rate) {
  const args = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256', fileURLToPath(new URL('case.mjs', import.meta.url))];
  const env = { ...process.env, STEPPE_AUDIO_PACKAGE: folder };
  const seconds = process.env.SECONDS ?? '2';
  const { stdout } = await promisify(execFile)(process.execPath, [...args, mode, String(rate), seconds], { env });
  return JSON.parse(stdout.trim().split('\n').at(-1)).cpuUsPerPacket;
}

/** Compares both folders and prints a table and a verdict for each case. */
export async function compare(folder, rounds = ROUNDS) {
  const folders = { now: fileURLToPath(new URL('..', import.meta.url)), before: resolve(folder) };
  for (const each of Object.values(folders)) {
    if (!existsSync(join(each, 'dist/index.mjs'))) throw new Error(`${each} has no dist/index.mjs: build the package there first`);
  }
  const draws = new Draws(1);
  const figures = CASES.map(([mode, rate]) => ({ mode, rate, costs: { now: [], before: [] } }));
  for (let round = 1; round <= rounds; round += 1) {
    for (const { mode, rate, costs } of figures) {
      for (const build of order(draws)) {
        const cost = await run(folders[build], mode, rate);
        console.error(`round ${round} of ${rounds}: ${name(mode, rate)}, ${build}: ${cost.toFixed(3)} µs CPU a packet`);
        costs[build].push(cost);
      }
    }
  }
  console.log('| | before, µs CPU a packet | now | now/before | 95 % of it | rounds |\n|---|---:|---:|---:|---:|---:|');
  for (const { mode, rate, costs } of figures) {
    const found = ratios(costs);
    const [low, high] = medianInterval(found);
    const cells = [name(mode, rate), median(costs.before), median(costs.now), median(found), `${low.toFixed(3)}–${high.toFixed(3)}`, `${found.length}`];
    console.log(`| ${cells.map((cell) => (typeof cell === 'number' ? cell.toFixed(3) : cell)).join(' | ')} |`);
  }
  console.log('');
  for (const { mode, rate, costs } of figures) console.log(`${name(mode, rate)}: ${verdict(costs)}`);
}

function name(mode, rate) {
  const way = mode === 'ring' ? 'events' : 'a Worker';
  return `${way}, ${rate === 0 ? 'burst' : `${rate.toLocaleString('en')} a second`}`;
}
