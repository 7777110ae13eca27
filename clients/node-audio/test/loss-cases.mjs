// What happens to sound servers and their clients, and how many frames are lost by it: as a probe has it that plays all the
// while, and as the capture tells it.
import { spawn } from 'node:child_process';
import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { SERVERS, longProbe, probe } from './sound-server.mjs';

export const SECOND = 48_000;
const CLIENT = fileURLToPath(new URL('loss-client.mjs', import.meta.url));
/** Longer than any case. */
const PROBE_SECONDS = 100;
/** Frames of a cycle of PipeWire's at 48 kHz: a player that is late loses as many. */
export const CYCLE_FRAMES = 512;

const signal = async (process, ms, whileStopped = () => {}) => {
  process.kill('SIGSTOP');
  whileStopped();
  await delay(ms);
  process.kill('SIGCONT');
};

/** A microphone made of what is played: it can go away, and the probe goes on. */
function loadMicrophone(server, name = 'mic', rate = SECOND) {
  const args = ['module-remap-source', 'master=zc.monitor', `source_name=${name}`, `rate=${rate}`, 'channels=2'];
  return server.pactl('load-module', ...args, 'master_channel_map=front-left,front-right', 'channel_map=front-left,front-right').trim();
}

const microphone = {
  source: { kind: 'input', deviceId: 'mic' },
  prepare: (server) => (server.module = loadMicrophone(server)),
};

async function reload(server, ms, rate = SECOND) {
  server.pactl('unload-module', server.module);
  await delay(ms);
  server.module = loadMicrophone(server, 'mic', rate);
}

/** The stream that is captured, by its number. */
function output(server) {
  const line = server.pactl('list', 'short', 'source-outputs').split('\n').find((one) => one.includes('PipeWire') || one.includes('protocol-native'));
  const all = server.pactl('list', 'source-outputs').split(/(?=Source Output #)/);
  const ours = all.find((text) => text.includes('steppe-audio'));
  return /#(\d+)/.exec(ours ?? line)[1];
}

const BOTH = Object.keys(SERVERS);

/**
 * By name: what is captured, what to prepare, and what happens. `strike` is called with the server, the client's process
 * and a function that has the client do something. `loses`: servers with which frames are lost in flow.
 */
export const CASES = {
  'stop server': {
    // PulseAudio makes up for it.
    loses: ['PipeWire'],
    strike: ({ server, client, wasStopped }) => signal(server.process, 1_500, () => wasStopped && client.kill('SIGCONT')),
  },
  'stop client': {
    strike: ({ client, wasStopped, seconds }) => (wasStopped ? delay(seconds * 1e3) : signal(client, seconds * 1e3)),
    seconds: 14,
  },
  suspend: {
    ...microphone,
    // PipeWire resumes what is captured.
    loses: ['PulseAudio'],
    strike: async ({ server }) => {
      server.pactl('suspend-source', 'mic', '1');
      await delay(700);
      server.pactl('suspend-source', 'mic', '0');
    },
  },
  unload: { ...microphone, strike: ({ server }) => reload(server, 700), restores: true, loses: BOTH },
  move: {
    source: { kind: 'input' },
    prepare: (server) => {
      for (const name of ['mic', 'other']) loadMicrophone(server, name);
      server.pactl('set-default-source', 'mic');
    },
    strike: async ({ server }) => {
      server.pactl('move-source-output', output(server), 'other');
      await delay(700);
    },
  },
  'rate change': {
    ...microphone,
    strike: async ({ server, settle, isBefore }) => {
      await reload(server, 300, 44_100);
      if (isBefore) return;
      await settle();
      await reload(server, 300);
    },
    restores: true,
    loses: BOTH,
  },
  restart: {
    strike: async ({ server, replay }) => {
      await server.kill();
      await delay(500);
      await server.start();
      replay();
    },
    restores: true,
    loses: BOTH,
  },
  // Servers keep 4 MiB for a client that does not read, 2.7 s of this; PulseAudio more where it shares memory.
  overrun: {
    rate: 192_000,
    loses: BOTH,
    strike: ({ client, wasStopped }) => (wasStopped ? delay(7_000) : signal(client, 7_000)),
  },
  /** Nothing is played at first: servers have rendered silence ahead. */
  'idle source': {
    isIdle: true,
    strike: ({ server, serverName, settle }) => {
      play(server, serverName);
      return settle();
    },
  },
  /** Nothing happens, but that other programs want the processors too. */
  load: {
    strike: async ({ settle }) => {
      const burners = Array.from({ length: 4 }, () => spawn(process.execPath, ['-e', 'for (;;);']));
      for (let half = 0; half < 20; half += 1) await settle();
      for (const burner of burners) burner.kill('SIGKILL');
    },
  },
  'blocked loop': {
    slots: 16,
    loses: BOTH,
    strike: ({ client, tell, wasStopped }) => (wasStopped ? client.kill('SIGCONT') : tell('block 800')),
    atOpen: 800,
  },
};

/** Starts what plays the probe: to PipeWire directly, so that its PulseAudio interface may be stopped. */
function play(server, name) {
  if (name === 'PulseAudio') return server.play(longProbe(), { latencyMs: 12_000 });
  const player = server.spawn('pw-play', ['--target', 'zc', server.probeFile], 'ignore');
  server.players.push(player);
  return player;
}

function writeProbe(file, rate) {
  const bytes = PROBE_SECONDS * SECOND * 4;
  const head = Buffer.alloc(44);
  head.write('RIFF');
  head.writeUInt32LE(36 + bytes, 4);
  head.write('WAVEfmt ', 8);
  [[16, 16, 4], [20, 1, 2], [22, 2, 2], [24, rate, 4], [28, rate * 4, 4], [32, 4, 2], [34, 16, 2]].forEach(
    ([at, value, width]) => head.writeUIntLE(value, at, width),
  );
  head.write('data', 36);
  head.writeUInt32LE(bytes, 40);
  const target = openSync(file, 'w');
  writeSync(target, head);
  for (let second = 0; second < PROBE_SECONDS; second += 1) writeSync(target, probe(1 + second * SECOND, SECOND));
  closeSync(target);
}

/** A client that captures, and what it has seen. */
class Client {
  constructor(server, options) {
    const args = [CLIENT, JSON.stringify(options)];
    this.process = spawn(process.execPath, args, { env: server.env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  async line() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error('the client has ended');
    return value;
  }

  async tell(line) {
    this.process.stdin.write(`${line}\n`);
    return JSON.parse(await this.line());
  }

  /** Waits until so many more frames came. */
  async more(frames) {
    const { frames: before } = await this.tell('look');
    for (;;) {
      const seen = await this.tell('look');
      if (seen.frames >= before + frames) return seen;
      await delay(50);
    }
  }
}

/** Waits until what servers kept for a client that did not read has come: from then on sound comes by the clock. */
async function drained(client, rate) {
  for (let before; ; ) {
    const [{ frames }, ms] = [await client.tell('look'), performance.now()];
    if (before && frames - before.frames < ((ms - before.ms) * rate * 1.5) / 1e3) return;
    before = { frames, ms };
    await delay(250);
  }
}

/** Runs a case, and says what was lost and what was told of it. */
export async function run(serverName, caseName, { phase, seconds }) {
  const one = CASES[caseName];
  const { source = { kind: 'loopback' }, slots = 4_096 } = one;
  const rate = one.rate ?? SECOND;
  const quantum = (CYCLE_FRAMES * rate) / SECOND;
  const settings = one.rate ? { rate, sample: 'float32le', sharesMemory: false } : {};
  const server = new SERVERS[serverName]({ ...settings, quantum, isPreferred: true });
  await server.start();
  try {
    server.probeFile = join(server.folder, 'probe.wav');
    if (serverName === 'PipeWire') writeProbe(server.probeFile, rate);
    one.prepare?.(server);
    if (!one.isIdle) play(server, serverName);
    // The player has begun.
    await delay(1_000);
    const isBefore = phase === 'before';
    const options = { sources: [source], slots, slotBytes: 1_920, sample: 's16', sampleRate: rate, channels: 2 };
    const client = new Client(server, { options, atOpen: isBefore ? (one.atOpen ?? 'stop') : undefined });
    await client.line();
    if (!isBefore) await client.more(SECOND);
    if (!isBefore) await client.tell('mark');
    const wasStopped = isBefore && one.atOpen === undefined;
    const tell = (line) => client.tell(line);
    const settle = () => client.more(SECOND / 2);
    const replay = () => serverName === 'PulseAudio' && play(server, serverName);
    await one.strike({ server, serverName, client: client.process, tell, settle, replay, isBefore, wasStopped, seconds: seconds ?? one.seconds });
    if (wasStopped) client.process.kill('SIGCONT');
    await client.more(rate / 10);
    await drained(client, rate);
    await client.more(rate * 1.5);
    const seen = await client.tell('');
    return { ...judge(seen, rate), ms: 1e3 / rate, events: seen.events, unflagged: seen.unflagged, aheadMs: seen.aheadMs };
  } finally {
    await server.stop();
  }
}

/**
 * What is missing by the probe's numbers and by when packets came, and what was told. A player that was late itself has
 * given fewer numbers, and one that was started anew other ones: then times count, and else numbers.
 */
function judge(seen, rate) {
  const came = seen.framesToLast - seen.framesToFirst - seen.silent;
  const byProbe = seen.last - seen.first - came;
  const byTime = Math.round((seen.missingMs * rate) / 1e3);
  const told = seen.told + seen.dropped;
  const { gaps, estimated, droppedCounted } = seen;
  return { byProbe, byTime, told, droppedCounted, estimated, gaps };
}
