// Where the CPU time of a capture goes, by thread, beside `parec` and the least programs that do a part of it (floor.c, which needs
// a C compiler and libpulse's headers): `node bench/floor.mjs [PulseAudio|PipeWire]`. All listen at the same time, with fragments
// of 20 ms, and are pinned to one processor. ROUNDS of SECONDS each as the variables say.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SERVERS, longProbe } from '../test/sound-server.mjs';
import { median } from './comparison.mjs';

const FRAGMENT_MS = '20';
const [ROUNDS, SECONDS, WARM_SECONDS] = [Number(process.env.ROUNDS ?? 9), Number(process.env.SECONDS ?? 4), 25];
const kind = process.argv[2] ?? 'PulseAudio';
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const processor = execFileSync('taskset', ['-cp', String(process.pid)], { encoding: 'utf8' }).match(/(\d+)\s*$/)[1];

/** A capture by the addon alone. Its callback is called once, or for each wake if it stores to the doorbell. */
const addonAlone = (callback) => `
  import { DOORBELL, open } from ${JSON.stringify(here('../test/ring-reader.mjs'))};
  const { native, reader: { words } } = open({ sources: [{ kind: 'loopback' }], wakeFrames: 960 }, () => ${callback});
  native.start();
  globalThis.kept = native;`;

const folder = mkdtempSync(join(tmpdir(), 'steppe-floor-'));
const floor = join(folder, 'floor');
execFileSync('cc', ['-O2', '-o', floor, here('floor.c'), '-lpulse', '-lpthread']);
const node = (...args) => [process.execPath, ...args];
const contestants = {
  parec: ['parec', '--device=zc.monitor', '--raw', '--format=s16le', '--rate=48000', '--channels=2', `--latency-msec=${FRAGMENT_MS}`],
  'floor.c, one thread': [floor, FRAGMENT_MS, '0'],
  'floor.c, and a thread that it wakes': [floor, FRAGMENT_MS, '1'],
  'addon, wakes nothing': node('--input-type=module', '-e', addonAlone('{}')),
  'addon, wakes an empty callback': node('--input-type=module', '-e', addonAlone('Atomics.store(words, DOORBELL, 0)')),
  'ring, events': node(here('listen.mjs'), 'events', '10'),
  'ring, a Worker': node(here('listen.mjs'), 'worker', '10'),
};

/** CPU time so far of each thread of a process, in ms: the audio's, and all others. */
function cpuMs(pid) {
  const found = { audio: 0, others: 0 };
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const task = `/proc/${pid}/task/${thread}`;
    const isAudio = readFileSync(`${task}/comm`, 'utf8').startsWith('steppe-audio');
    found[isAudio ? 'audio' : 'others'] += Number(readFileSync(`${task}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  }
  return found;
}

const server = new SERVERS[kind]();
await server.start();
server.play(longProbe(), { latencyMs: 2_000 });
await delay(500);
const running = Object.entries(contestants).map(([name, command]) => {
  const child = spawn('taskset', ['-c', processor, ...command], { env: server.env, stdio: 'ignore', cwd: here('.') });
  return { name, child, rounds: [] };
});
await delay(WARM_SECONDS * 1e3);
for (let round = 0; round < ROUNDS; round += 1) {
  const before = running.map(({ child }) => cpuMs(child.pid));
  const began = performance.now();
  await delay(SECONDS * 1e3);
  const seconds = (performance.now() - began) / 1e3;
  running.forEach(({ child, rounds }, at) => {
    const now = cpuMs(child.pid);
    const [audio, others] = ['audio', 'others'].map((thread) => (now[thread] - before[at][thread]) / seconds);
    rounds.push({ audio, others, all: audio + others });
  });
}
console.log(`| ${kind} | CPU, ms a second | beside parec | thread of the audio | others |\n|---|---:|---:|---:|---:|`);
const [{ rounds: ofParec }] = running;
for (const { name, child, rounds } of running) {
  const figure = (of) => median(rounds.map(of)).toFixed(2);
  const ratio = figure(({ all }, at) => all / ofParec[at].all);
  const cells = [name, figure(({ all }) => all), ratio, figure(({ audio }) => audio), figure(({ others }) => others)];
  console.log(`| ${cells.join(' | ')} |`);
  child.kill('SIGKILL');
}
await server.stop();
rmSync(folder, { recursive: true });
