// Channel maps with real sound servers: a constant on each channel of a sink, captured with the sink's own map and mixed
// up and down. Some maps and targets in seconds; all of them with STEPPE_LONG=1.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';

import { Capture, SILENT } from './ring-reader.mjs';
import { SERVERS } from './sound-server.mjs';

const isLong = process.env.STEPPE_LONG === '1';
const [FL, FR, FC, LFE] = ['front-left', 'front-right', 'front-center', 'lfe'];
const [RL, RR, RC, SL, SR] = ['rear-left', 'rear-right', 'rear-center', 'side-left', 'side-right'];
const aux = (count) => Array.from({ length: count }, (_, number) => `aux${number}`);

const MAPS = {
  mono: ['mono'],
  stereo: [FL, FR],
  2.1: [FL, FR, LFE],
  '3.0': [FL, FR, FC],
  quad: [FL, FR, RL, RR],
  '4.0': [FL, FR, FC, RC],
  '5.0': [FL, FR, FC, RL, RR],
  5.1: [FL, FR, FC, LFE, RL, RR],
  '5.1 in ALSA order': [FL, FR, RL, RR, FC, LFE],
  '5.1 side': [FL, FR, FC, LFE, SL, SR],
  6.1: [FL, FR, FC, LFE, RC, SL, SR],
  7.1: [FL, FR, FC, LFE, RL, RR, SL, SR],
  '7.1 in ALSA order': [FL, FR, RL, RR, FC, LFE, SL, SR],
  'aux 3': aux(3),
  'aux 8': aux(8),
};

/** What packets of so many channels are in. */
const STANDARD = [
  MAPS.mono, MAPS.stereo, MAPS['3.0'], MAPS.quad, MAPS['5.0'], MAPS['5.1'], MAPS['6.1'], MAPS['7.1'],
];

const M = Math.SQRT1_2;
/** Gains of a position in others, as the README has them: the first line whose positions are all there. */
const FOLDS = {
  mono: [{ [FL]: 1, [FR]: 1 }, { [FC]: 1 }],
  [FC]: [{ mono: 1 }, { [FL]: M, [FR]: M }],
  [FL]: [{ mono: M }],
  [FR]: [{ mono: M }],
  [RL]: [{ [SL]: 1 }, { [RC]: M }, { [FL]: M }, { mono: 0.5 }],
  [RR]: [{ [SR]: 1 }, { [RC]: M }, { [FR]: M }, { mono: 0.5 }],
  [SL]: [{ [RL]: 1 }, { [RC]: M }, { [FL]: M }, { mono: 0.5 }],
  [SR]: [{ [RR]: 1 }, { [RC]: M }, { [FR]: M }, { mono: 0.5 }],
  [RC]: [{ [RL]: M, [RR]: M }, { [SL]: M, [SR]: M }, { [FL]: 0.5, [FR]: 0.5 }, { mono: M }],
  [LFE]: [],
};

/** What samples of one map are in another. */
function mixed(samples, from, to) {
  const byNumber = [from, to].some((map) => map.every((position) => position.startsWith('aux')));
  const row = (output, at) => from.map((input, number) => {
    if (byNumber) return from.length === 1 || to.length === 1 || number === at ? 1 : 0;
    if (to.includes(input)) return input === output ? 1 : 0;
    const fold = FOLDS[input].find((gains) => Object.keys(gains).every((position) => to.includes(position)));
    const gain = fold?.[output] ?? 0;
    return from.includes(output) ? Math.min(gain, M) : gain;
  });
  const rows = to.map(row);
  const scale = Math.max(1, ...rows.map((gains) => gains.reduce((sum, gain) => sum + gain)));
  return rows.map((gains) => gains.reduce((sum, gain, number) => sum + gain * samples[number], 0) / scale);
}

/** Captures that open now: PulseAudio's socket has a backlog of five connections. */
const opening = new Set();

/** Waits until fewer than four captures open; the result says that one more has opened. */
async function turn() {
  while (opening.size >= 4) await Promise.race(opening);
  let opened;
  const one = new Promise((resolve) => (opened = resolve));
  opening.add(one);
  return () => {
    opening.delete(one);
    opened();
  };
}

/** Captures a sink until so many packets have sound, and gives a frame of the last. */
async function frameOf(sink, map, { sample = 's16', convert = 'allow' } = {}) {
  let [frame, loud] = [undefined, 0];
  const opened = await turn();
  const capture = new Capture({
    sources: [{ kind: 'loopback', deviceId: sink }],
    channels: map.length,
    channelMap: map,
    slots: 64,
    slotBytes: 480 * 4 * map.length,
    sample,
    convert,
  }, ({ bytes, frames, flags }) => {
    if (flags & SILENT) return;
    loud += 1;
    const Samples = sample === 's16' ? Int16Array : Float32Array;
    const samples = new Samples(bytes.buffer, bytes.byteOffset, frames * map.length);
    // A player that came too late leaves zeros after it.
    const end = samples.findLastIndex((value) => value !== 0);
    const start = end - (end % map.length);
    frame = [...samples.slice(start, start + map.length)].map((value) => (sample === 's16' ? value : value * 32_768));
  });
  const { format } = await capture.event('open').finally(opened);
  await capture.until(() => loud >= 5);
  capture.close();
  return { frame, device: format.channelMap };
}

/** Plays a constant on each channel until it is killed. */
function play(server, sink, map, samples) {
  const format = ['--raw', '--format=s16le', '--rate=48000', `--channels=${map.length}`];
  const args = ['--playback', ...format, `--channel-map=${map.join(',')}`, `--device=${sink}`, '--latency-msec=100'];
  const player = spawn('pacat', args, { env: server.env, stdio: ['pipe', 'ignore', 'ignore'] });
  player.stdin.on('error', () => {});
  const second = Buffer.from(Int16Array.from({ length: 48_000 * map.length }, (_, at) => samples[at % map.length]).buffer);
  Readable.from(function* () { for (;;) yield second; }(), { objectMode: false }).pipe(player.stdin);
  return player;
}

const targets = (map) => {
  const some = isLong ? STANDARD : [MAPS.mono, MAPS.stereo, MAPS['5.1'], MAPS['7.1']];
  return [...some, aux(map.length), ...(isLong ? Object.values(MAPS) : [])];
};
const SHORT = ['mono', 'stereo', 2.1, '4.0', '5.1 in ALSA order', 6.1, 7.1, 'aux 3', 'aux 8'].map(String);

/** What sinks of each server have. */
const SAMPLES = { PulseAudio: 's16', PipeWire: 'f32' };

for (const [name, Server] of Object.entries(SERVERS)) {
  describe(name, { concurrency: 3 }, () => {
    let server;
    before(() => {
      // It says in this process's environment where it is.
      server = new Server();
      return server.start();
    });
    after(() => server.stop());

    for (const [layout, map] of Object.entries(MAPS)) {
      if (!isLong && !SHORT.includes(layout)) continue;
      test(`${layout}: each channel is in its place`, async () => {
        const sink = `sink-${layout.replaceAll(/\W/g, '-')}`;
        const channels = `channels=${map.length} channel_map=${map.join(',')}`;
        const args = [`sink_name=${sink}`, 'rate=48000', 'format=s16le', ...channels.split(' ')];
        const module = server.pactl('load-module', 'module-null-sink', ...args).trim();
        const samples = map.map((_, channel) => 1_001 * (channel + 1));
        const player = play(server, sink, map, samples);
        // With the device's own map there is nothing to convert.
        const exact = await frameOf(sink, map, { sample: SAMPLES[name], convert: 'refuse' });
        assert.deepEqual(exact, { frame: samples, device: map });
        const frames = await Promise.all(targets(map).map(async (to) => ({ to, ...await frameOf(sink, to) })));
        player.kill('SIGKILL');
        server.pactl('unload-module', module);
        for (const { to, frame, device } of frames) {
          assert.deepEqual(device, map);
          const expected = mixed(samples, map, to);
          const isOff = frame.some((sample, channel) => Math.abs(sample - expected[channel]) > 1);
          assert.ok(!isOff, `${map} to ${to}: ${frame}, expected ${expected}`);
        }
      });
    }
  });
}
