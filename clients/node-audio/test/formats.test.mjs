// Options of channel maps and of programs, and what a capture tells of its channels. No device is needed.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { AudioCapture, AudioReader } from '../dist/index.mjs';

const synthetic = (format) => ({ kind: 'synthetic', synthetic: { packets: 2, pace: 'burst', format } });

/** The channel maps of a capture and of its device. */
async function maps(options) {
  const capture = await AudioCapture.open(options);
  const { format, device } = capture;
  await capture.close();
  return [format.channels, format.channelMap.join(' '), device.format.channelMap.join(' ')];
}

test('a capture tells the positions of its channels', async () => {
  const [stereo, front] = ['front-left front-right', 'front-left front-right front-center'];
  const standard = ['mono', stereo, front, `${stereo} rear-left rear-right`, `${front} rear-left rear-right`];
  standard.push(`${front} lfe rear-left rear-right`, `${front} lfe rear-center side-left side-right`);
  standard.push(`${front} lfe rear-left rear-right side-left side-right`);
  standard.push(Array.from({ length: 9 }, (_, number) => `aux${number}`).join(' '));
  for (const [index, map] of standard.entries()) {
    const channels = index + 1;
    assert.deepEqual(await maps({ source: synthetic({}), format: { channels } }), [channels, map, map]);
  }
  // Their number follows from a map.
  const alsa = ['front-left', 'front-right', 'rear-left', 'rear-right', 'front-center', 'lfe'];
  const source = synthetic({ channelMap: alsa });
  assert.deepEqual(await maps({ source }), [1, 'mono', alsa.join(' ')]);
  assert.deepEqual(await maps({ source, format: { channelMap: alsa }, convert: 'refuse' }), [6, alsa.join(' '), alsa.join(' ')]);
  const pair = { source: [source, source], format: { channels: 2 } };
  assert.deepEqual((await maps(pair)).slice(0, 2), [4, `${stereo} ${stereo}`]);
});

test('a reader in a Worker knows the format and the positions', async () => {
  const format = { channelMap: ['front-center', 'lfe', 'front-left'], sample: 'f32', sampleRate: 16_000 };
  const capture = await AudioCapture.open({ source: synthetic(format), format });
  const reader = new AudioReader(structuredClone(capture.share()));
  assert.deepEqual(reader.format, { ...format, channels: 3 });
  assert.deepEqual(reader.format, capture.format);
  reader.close();
  await capture.close();
});

test('a device in another order is mixed by positions, or refused', async () => {
  const source = synthetic({ channelMap: ['front-right', 'front-left'] });
  source.synthetic.signal = 'probe';
  const first = async (options) => {
    const capture = await AudioCapture.open({ source, ...options });
    for await (const { samples } of capture) return [...samples.slice(2, 4)];
  };
  // The first channel has the low bits of the frame's number.
  assert.deepEqual(await first({ format: { channelMap: ['front-right', 'front-left'] } }), [1, 0]);
  assert.deepEqual(await first({ format: { channels: 2 } }), [0, 1]);
  const refused = AudioCapture.open({ source, format: { channels: 2 }, convert: 'refuse' });
  await assert.rejects(refused, { code: 'ERR_FORMAT', message: /\(front-right front-left\)/ });
});

test('invalid channel maps and programs are refused', async () => {
  const refused = (options, message) =>
    assert.rejects(AudioCapture.open({ source: synthetic({}), ...options }), { code: 'ERR_INVALID_OPTION', message });
  await refused({ format: { channelMap: ['left'] } }, /format.channelMap has 'left'; expected mono, front-left/);
  await refused({ format: { channels: 3, channelMap: ['mono'] } }, /format.channelMap has 1 positions; format.channels is 3/);
  await refused({ format: { channelMap: [] } }, /format.channelMap is an array; expected 1 to 32 positions/);
  await refused({ format: { channelMap: 'stereo' } }, /format.channelMap is 'stereo'; expected 1 to 32 positions/);
  const program = (source, message) => refused({ source: { kind: 'process', ...source } }, message);
  await program({}, /source.pid or source.program is required/);
  await program({ pid: 1, program: 'x' }, /both set/);
  await program({ pid: 0 }, /source.pid is 0/);
  await program({ program: '' }, /source.program is empty/);
  await program({ pid: 1, follow: 'all' }, /source.follow is 'all'; expected one of restart, children, none/);
  await program({ program: 'x', startTimeMs: 1 }, /source.startTimeMs is that of a process: it requires source.pid/);
  await program({ pid: 1, startTimeMs: -1 }, /source.startTimeMs is -1; expected a whole number/);
  await program({ pid: 1, startTimeMs: NaN }, /source.startTimeMs is NaN/);
});
