// What it costs to listen to a sound server, and how late: @steppe/audio beside the server's own recorders and other packages, on
// PulseAudio and PipeWire. All listen at the same time, so that what else the machine does is the same for all; for the CPU they
// are pinned to one processor. ROUNDS of SECONDS each as the variables say.
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SERVERS, longProbe } from '../test/sound-server.mjs';
import { median } from './comparison.mjs';

const PACKET_MS = 10;
const [ROUNDS, SECONDS, WARM_SECONDS] = [Number(process.env.ROUNDS ?? 8), Number(process.env.SECONDS ?? 8), 20];
/** What is listened for before the latencies that count: servers work in larger blocks at first. */
const SETTLING_SECONDS = 5;
/** The last processor of those that this process may use. */
const PROCESSOR = execFileSync('taskset', ['-cp', String(process.pid)], { encoding: 'utf8' }).match(/(\d+)\s*$/)[1];
const listen = fileURLToPath(new URL('listen.mjs', import.meta.url));
const peers = createRequire(new URL('peers/', import.meta.url));

const RAW = ['--format=s16le', '--rate=48000', '--channels=2'];
const RECORDERS = {
  parec: ['parec', '--device=zc.monitor', `--latency-msec=${PACKET_MS}`, ...RAW],
  'pw-record': ['pw-record', '-P', '{ stream.capture.sink=true }', '--target', 'zc', '--latency', `${PACKET_MS}ms`, '--rate', '48000', '--channels', '2', '--format', 's16', '-'],
};
const OURS = { 'ring, a Worker': 'worker', 'ring, events': 'events', 'ring, events, wakeMs: 10': 'events@10' };

/** Packages that can be loaded, and why others can not. */
const [PEERS, missing] = [{}, {}];
for (const name of ['decibri', 'naudiodon']) {
  try {
    peers(name);
    PEERS[name] = name;
  } catch (error) {
    missing[name] = error.message.split('\n')[0];
  }
}

/** Contestants of a server, by name, as commands: how they listen, and how they print when packets came. */
function contestants(kind) {
  const node = (way, ...more) => [process.execPath, listen, way, String(PACKET_MS), ...more];
  const found = {};
  for (const [name, command] of Object.entries(RECORDERS)) {
    if (name === 'pw-record' && kind !== 'PipeWire') continue;
    found[name] = { quiet: command, logged: (seconds) => [command, node('pipe', seconds)] };
  }
  for (const [name, way] of [...Object.entries(OURS), ...Object.entries(PEERS)]) {
    found[name] = { quiet: node(way), logged: (seconds) => [node(way, seconds)] };
  }
  return found;
}

/** Time on a processor of all threads of a process so far, in s. */
function cpuSeconds(pid) {
  let ns = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
    } catch {
      // It has ended.
    }
  }
  return ns / 1e9;
}

/** CPU seconds an hour of each, the median of rounds, and the median of its ratios to parec. */
async function costs(found, env) {
  const children = {};
  for (const [name, { quiet }] of Object.entries(found)) {
    children[name] = spawn('taskset', ['-c', PROCESSOR, ...quiet], { env, stdio: 'ignore' });
  }
  await delay(WARM_SECONDS * 1e3);
  const rounds = Object.fromEntries(Object.keys(found).map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = Object.values(children).map(({ pid }) => cpuSeconds(pid));
    const began = performance.now();
    await delay(SECONDS * 1e3);
    const hours = (performance.now() - began) / 3.6e6;
    Object.entries(children).forEach(([name, { pid }], at) => rounds[name].push((cpuSeconds(pid) - before[at]) / hours));
  }
  Object.values(children).forEach((child) => child.kill('SIGKILL'));
  return Object.fromEntries(
    Object.entries(rounds).map(([name, all]) => [name, { cpu: median(all), ratio: median(all.map((cpu, at) => cpu / rounds.parec[at])) }]),
  );
}

/** What a pipeline of commands prints. */
function printed(commands, env) {
  let input = 'ignore';
  const children = commands.map(([program, ...args]) => {
    const child = spawn(program, args, { env, stdio: [input, 'pipe', 'ignore'] });
    input = child.stdout;
    return child;
  });
  const last = children.at(-1);
  return new Promise((resolve, reject) => {
    let text = '';
    last.stdout.setEncoding('utf8').on('data', (chunk) => (text += chunk));
    last.once('error', reject).once('close', () => {
      children.forEach((child) => child.kill('SIGKILL'));
      // Before it, PortAudio says what it is.
      const line = text.trim().split('\n').at(-1);
      resolve(line.startsWith('[') ? JSON.parse(line) : []);
    });
  });
}

/**
 * Latencies of frames in ms, from when the server says that they are played to the listener: eight of each packet. What
 * the server says is what the packets of our capture tell.
 */
function latencies(rows, reference) {
  const found = [];
  let at = 0;
  const settled = (rows[0]?.[2] ?? 0) + SETTLING_SECONDS * 1e9;
  for (const [number, frames, arrived] of rows.filter((row) => row[2] > settled)) {
    while (at + 1 < reference.length && reference[at + 1][0] <= number) at += 1;
    const [known, , , timeNs] = reference[at];
    if (Math.abs(number - known) > 4_800) continue;
    for (let part = 0; part < 8; part += 1) {
      const frame = number + (frames * part) / 8;
      found.push((arrived - timeNs) / 1e6 - (frame - known) / 48);
    }
  }
  return found.sort((one, other) => one - other);
}

async function delays(found, env) {
  const names = Object.keys(found);
  const logs = await Promise.all(names.map((name) => printed(found[name].logged('20'), env)));
  const reference = logs[names.indexOf('ring, events')];
  return Object.fromEntries(names.map((name, at) => [name, latencies(logs[at], reference)]));
}

const at = (sorted, share) => (sorted.length === 0 ? '–' : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(1));

/** The figures of each contestant at one server, by name: ours first. */
async function figures(kind) {
  const server = new SERVERS[kind]();
  await server.start();
  server.play(longProbe(), { latencyMs: 2_000 });
  // What knows ALSA alone comes to the same server.
  writeFileSync(join(server.folder, '.asoundrc'), 'pcm.!default { type pulse }\nctl.!default { type pulse }\n');
  await delay(2_000);
  try {
    const found = contestants(kind);
    // One that takes half a processor would cost the others more: packages run with what they are compared with alone.
    const [own, others] = [{}, []];
    for (const [name, contestant] of Object.entries(found)) {
      if (name in PEERS) others.push({ parec: found.parec, 'ring, events': found['ring, events'], [name]: contestant });
      else own[name] = contestant;
    }
    const [late, cost] = [{}, {}];
    for (const group of [...others, own]) {
      Object.assign(late, await delays(group, server.env));
      Object.assign(cost, await costs(group, server.env));
    }
    const names = [...Object.keys(OURS), ...Object.keys(found).filter((name) => !(name in OURS))];
    return Object.fromEntries(names.map((name) => [name, { ...cost[name], late: late[name] }]));
  } finally {
    await server.stop();
  }
}

const ROWS = {
  'CPU seconds an hour ↓': ({ cpu }) => cpu.toFixed(1),
  'the same, beside parec ↓': ({ ratio }) => ratio.toFixed(2),
  'latency p50, ms ↓': ({ late }) => at(late, 0.5),
  'latency p99, ms ↓': ({ late }) => at(late, 0.99),
};

const { dependencies, optionalDependencies } = JSON.parse(readFileSync(new URL('peers/package.json', import.meta.url), 'utf8'));
const versions = { ...dependencies, ...optionalDependencies };
const version = (name) => (name in versions ? `${name} ${versions[name]}` : name);

/** A table for each server, as text of a page. */
export async function deviceTables() {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const tables = [];
  for (const kind of Object.keys(SERVERS)) {
    const all = Object.entries(await figures(kind));
    const head = [line([`${kind}, packets of ${PACKET_MS} ms`, ...all.map(([name]) => version(name))]), `|---|${'---:|'.repeat(all.length)}`];
    const rows = Object.entries(ROWS).map(([label, figure]) => line([label, ...all.map(([, each]) => figure(each))]));
    tables.push([...head, ...rows].join('\n'));
  }
  const absent = Object.entries(missing).map(([name, reason]) => `${name} does not install here: ${reason}.`);
  return [...tables, ...absent].join('\n\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(await deviceTables());
  process.exit();
}
