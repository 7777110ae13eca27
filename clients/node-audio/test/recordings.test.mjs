// Recordings: files that can be read whatever ends them, pipes, full disks and rows of files.
import assert from 'node:assert/strict';
import { spawn, spawnSync, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, mkdirSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { after, test } from 'node:test';
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { AudioCapture } from '@steppe/audio';
import { mute, open } from './captures.mjs';
import { PROGRAMS, isInstalled, probedFrames, probedLayout, readWav, samplesOf } from './wav-reader.mjs';

const require = createRequire(import.meta.url);
const { HEADER_BYTES, WavFile, wavHeader } = require('../dist/wav.js');
const { openSink } = require('../dist/sink.js');

const here = fileURLToPath(new URL('.', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'steppe-recordings-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const at = (name) => join(folder, name);

const SECOND = 48_000;
const UNKNOWN = 0xffff_ffff;

const burst = (packets, options) => open({ pace: 'burst', packets }, options);

/** Whether samples are a probe from frame 0 on, in one channel. */
function assertProbe(samples, first = 0) {
  const wrong = samples.findIndex((sample, frame) => sample !== ((first + frame) & 0x7fff));
  assert.equal(wrong, -1, `frame ${wrong} is ${samples[wrong]}`);
}

/** The header counts what the file has. */
function assertComplete(path, frames) {
  const wav = readWav(path);
  assert.deepEqual([wav.form, wav.frames, wav.inFile, wav.riffBytes], ['RIFF', frames, frames * 2, wav.size - 8]);
}

/** Ten captures that are recorded from different moments on; tells how many frames each has captured. */
const RECORDER = `
  const { AudioCapture } = require('@steppe/audio');
  const captures = [];
  const start = async (index) => {
    const capture = await AudioCapture.open({ source: { kind: 'synthetic', synthetic: { signal: 'probe' } } });
    capture.recordWav(process.argv[1] + '/killed-' + index + '.wav').catch((error) => process.send({ failed: error.message }));
    captures.push(capture);
    if (index < 9) setTimeout(start, 137, index + 1);
  };
  start(0);
  setInterval(() => process.send({ ms: performance.now(), frames: captures.map((capture) => capture.stats().capturedFrames) }), 10);`;

/**
 * Kills a recorder when its youngest recording has so many frames; resolves with the frames that each had captured a
 * second before, by the recorder's clock.
 */
async function kill(frames) {
  const child = spawn(process.execPath, ['-e', RECORDER, folder], { cwd: here, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const told = [];
  child.on('message', (message) => {
    assert.equal(message.failed, undefined);
    told.push(message);
    if (message.frames.length === 10 && message.frames[9] > frames) child.kill('SIGKILL');
  });
  await once(child, 'exit');
  const last = told.at(-1);
  const before = told.findLast(({ ms }) => ms <= last.ms - 1_000);
  return last.frames.map((_, index) => before?.frames[index] ?? 0);
}

function assertSurvived(captured, programs) {
  const paths = captured.map((_, index) => at(`killed-${index}.wav`));
  const frames = paths.map((path, index) => {
    const wav = readWav(path);
    assert.ok(wav.dataBytes <= wav.inFile, `${wav.dataBytes} bytes told, ${wav.inFile} there`);
    assert.ok(wav.frames >= captured[index], `${wav.frames} of ${captured[index]} frames`);
    assertProbe(samplesOf(path));
    return wav.frames;
  });
  for (const name of programs) assert.deepEqual(PROGRAMS[name](paths), frames, name);
}

test('a recording that is killed lacks at most a second, at ten moments of it', async () => {
  assertSurvived(await kill(1.2 * SECOND), ['python', ...(isInstalled('soxi') ? ['soxi'] : [])]);
});

test('ten kills, a hundred recordings, which ffmpeg reads too', { skip: !process.env.STEPPE_LONG && 'STEPPE_LONG is not set' }, async () => {
  for (let kills = 0; kills < 10; kills += 1) {
    assertSurvived(await kill((0.3 + 0.23 * kills) * SECOND), ['python', 'soxi', 'ffmpeg']);
  }
});

test('the header is true after every write', async () => {
  const capture = await open({});
  const path = at('growing.wav');
  const recording = capture.recordWav(path);
  const seen = new Set();
  while (seen.size < 5) {
    await delay(5);
    if (!existsSync(path)) continue;
    const wav = readWav(path);
    assert.ok(wav.dataBytes <= wav.inFile);
    seen.add(wav.frames);
  }
  await capture.close();
  const { frames } = await recording;
  assertComplete(path, frames);
  assertProbe(samplesOf(path));
});

test('a capture that fails leaves a complete file', async () => {
  const capture = await open({ speed: 20 }, { overrun: 'error', ring: { slots: 8 } });
  const path = at('failed.wav');
  const recording = capture.recordWav(path);
  const blocked = setInterval(() => {
    const end = performance.now() + 60;
    while (performance.now() < end);
  }, 1);
  await assert.rejects(recording, { code: 'ERR_OVERRUN' });
  clearInterval(blocked);
  const { frames } = readWav(path);
  assertComplete(path, frames);
  assertProbe(samplesOf(path));
});

test('an abort ends a recording with what was captured until then, and also while no sound comes', async () => {
  const capture = await open({});
  const ended = new AbortController();
  const recording = capture.recordWav(at('aborted.wav'), { signal: ended.signal });
  while (capture.stats().capturedFrames < SECOND / 2) await turn();
  const captured = capture.stats().capturedFrames;
  ended.abort();
  const { frames } = await recording;
  assert.ok(frames >= captured, `${frames} of ${captured}`);
  assertComplete(at('aborted.wav'), frames);
  await capture.close();

  const silent = await mute();
  const again = new AbortController();
  const waiting = silent.recordWav(at('silent.wav'), { signal: again.signal });
  while (readdirSync(folder).every((name) => name !== 'silent.wav')) await turn();
  again.abort();
  assert.deepEqual((await waiting).frames, 0);
  assertComplete(at('silent.wav'), 0);
  await assert.rejects(silent.recordWav(at('x.wav'), { signal: AbortSignal.abort() }), { name: 'AbortError' });
  await silent.close();
});

test('seconds end a recording while no sound comes', async () => {
  const capture = await mute();
  assert.equal((await capture.recordWav(at('short.wav'), { seconds: 0.05 })).frames, 0);
  assertComplete(at('short.wav'), 0);
  await capture.close();
});

test('lengths that are none are refused, before the file is touched', async () => {
  const capture = await burst(2);
  const path = at('kept.wav');
  writeFileSync(path, 'kept');
  const refused = (options, message, target = path) =>
    assert.rejects(capture.recordWav(target, options), (error) => {
      assert.equal(error.code, 'ERR_INVALID_OPTION');
      assert.match(error.message, message);
      return true;
    });
  await refused({ seconds: -1 }, /seconds is -1; expected a number above 0/);
  await refused({ seconds: NaN }, /seconds is NaN; expected a number above 0/);
  await refused({ seconds: 0 }, /seconds is 0/);
  await refused({ seconds: '5' }, /seconds is '5'/);
  await refused({ second: 5 }, /unknown option 'second'; did you mean 'seconds'\?/);
  await refused({ roll: { second: 5 } }, /unknown option 'roll.second'; did you mean 'seconds'\?/);
  await refused({ roll: { bytes: 100 } }, /roll.bytes is 100; expected a whole number from 1024/);
  await refused({ roll: { seconds: 1 } }, /has no %v/);
  await refused({ roll: { seconds: 1 } }, /has '%q'/, at('%q-%v.wav'));
  await refused({ roll: { seconds: 1 } }, /needs a path/, new PassThrough());
  await refused({}, /expected a path or a writable stream/, '');
  await refused({}, /expected a path or a writable stream/, 7);
  const loop = capture[Symbol.asyncIterator]();
  await loop.next();
  await assert.rejects(capture.recordWav(path), { code: 'ERR_BUSY' });
  assert.equal(readFileSync(path, 'utf8'), 'kept');
  await loop.return();
  await assert.rejects(capture.recordWav(at('none/x.wav')), ({ code, message, cause }) => {
    assert.equal(code, 'ERR_FILE');
    assert.match(message, /cannot write .*none\/x.wav: no such file or directory \(ENOENT\); create the folder first/);
    return cause.code === 'ENOENT';
  });
});

test('gaps are silence of their length, or left out; what was lost before the recording is no part of it', async () => {
  for (const fillGaps of [true, false]) {
    const capture = await open({ speed: 20 }, { ring: { slots: 8 } });
    while (capture.stats().overrunFrames === 0) await turn();
    const path = at(`gaps-${fillGaps}.wav`);
    const recording = capture.recordWav(path, { fillGaps });
    while (!existsSync(path) || readWav(path).frames === 0) await delay(2);
    for (let gaps = 0; gaps < 3; gaps += 1) {
      const { overrunFrames } = capture.stats();
      while (capture.stats().overrunFrames < overrunFrames + 9_600);
      await delay(20);
    }
    await capture.close();
    const { frames, droppedFrames } = await recording;
    assert.ok(droppedFrames >= 3 * 9_600 && droppedFrames < capture.stats().overrunFrames);
    assertComplete(path, frames);
    const samples = samplesOf(path);
    if (fillGaps) {
      // Zero is the sample of one frame in 32,768 too, and the file may begin with a gap.
      const loud = samples.findIndex((sample) => sample !== 0);
      const first = samples[loud] - loud;
      assert.ok(samples.every((sample, frame) => sample === 0 || sample === ((first + frame) & 0x7fff)));
    }
    const zeros = samples.filter((sample) => sample === 0).length;
    // Without gaps, each run of frames that follow on each other may begin just before a zero.
    const isBreak = (sample, frame) => frame === 0 || sample !== ((samples[frame - 1] + 1) & 0x7fff);
    const runs = samples.filter(isBreak).length;
    assert.ok(fillGaps ? zeros >= droppedFrames : zeros <= frames / 0x8000 + runs, `${zeros} zeros in ${runs} runs`);
  }
});

test('a pipe gets a header without sizes, which others read to its end', async () => {
  const fifo = at('fifo');
  execFileSync('mkfifo', [fifo]);
  const copy = at('piped.wav');
  const capture = await burst(100);
  const recording = capture.recordWav(fifo);
  // The recording waits for a reader.
  const reader = spawn('sh', ['-c', 'cat "$1" > "$2"', 'sh', fifo, copy]);
  const [{ frames }] = await Promise.all([recording, once(reader, 'exit')]);
  assert.equal(frames, SECOND);
  const wav = readWav(copy);
  assert.deepEqual([wav.form, wav.riffBytes, wav.dataBytes, wav.inFile], ['RIFF', UNKNOWN, UNKNOWN, 2 * SECOND]);
  if (isInstalled('sox')) {
    const { stdout } = spawnSync('sh', ['-c', 'sox --ignore-length "$1" -t raw - | wc -c', 'sh', copy], { encoding: 'utf8' });
    assert.equal(Number(stdout), 2 * SECOND);
  }
});

test('a pipe whose reader goes, or never comes, is an error', async () => {
  const fifo = at('cut');
  execFileSync('mkfifo', [fifo]);
  const capture = await open({ speed: 50 });
  const reader = spawn('head', ['-c', '5000', fifo], { stdio: 'ignore' });
  await assert.rejects(capture.recordWav(fifo), ({ code, message }) => {
    assert.equal(code, 'ERR_FILE');
    assert.match(message, /broken pipe \(EPIPE\); the reader has closed the pipe; [\d.]+ s were written$/);
    return true;
  });
  if (reader.exitCode === null) await once(reader, 'exit');
  const signal = AbortSignal.timeout(50);
  await assert.rejects(capture.recordWav(fifo, { signal }), { code: 'ERR_FILE', message: /no process reads the FIFO/ });
  await capture.close();
});

test('a pipe whose reader stalls is given up after an abort', async () => {
  const fifo = at('stalled');
  execFileSync('mkfifo', [fifo]);
  const capture = await open({ speed: 50 });
  const reader = spawn('sh', ['-c', 'exec sleep 60 < "$1"', 'sh', fifo], { stdio: 'ignore' });
  const ended = new AbortController();
  const recording = capture.recordWav(fifo, { signal: ended.signal });
  // All slots that it may hold wait for the pipe.
  while (capture.stats().slots.held < capture.stats().slots.total / 2) await delay(5);
  ended.abort();
  await assert.rejects(recording, { code: 'ERR_FILE', message: /the reader took nothing for 2000 ms/ });
  reader.kill('SIGKILL');
  await capture.close();
  assert.equal(capture.stats().slots.held, 0);
});

test('a stream is a target, and is noticed when it is destroyed while no sound comes', async () => {
  const capture = await burst(100);
  const chunks = [];
  const target = new Writable({
    write(chunk, _, done) {
      chunks.push(Buffer.from(chunk));
      done();
    },
  });
  const summary = await capture.recordWav(target);
  assert.deepEqual(summary, { path: '-', files: 1, frames: SECOND, droppedFrames: 0, bytes: HEADER_BYTES + 2 * SECOND });
  assert.equal(target.writableFinished, true);
  assert.equal(Buffer.concat(chunks).length, summary.bytes);

  const silent = await mute();
  for (const error of [undefined, new Error('planted')]) {
    const destroyed = new PassThrough();
    const recording = silent.recordWav(destroyed);
    await delay(20);
    destroyed.destroy(error);
    await assert.rejects(recording, { code: 'ERR_FILE', message: error ? /planted/ : /the stream was destroyed/ });
  }
  await silent.close();
});

test('a disk that is full is told, and what was written is read', async (t) => {
  const device = await burst(100);
  await assert.rejects(device.recordWav('/dev/full'), { code: 'ERR_FILE', message: /no space left on device \(ENOSPC\); free space/ });
  await device.close();

  const disk = at('disk');
  mkdirSync(disk);
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'none', disk]);
  if (status !== 0) return t.diagnostic('a small tmpfs cannot be mounted here');
  try {
    const path = join(disk, 'full.wav');
    const capture = await burst(1_000);
    await assert.rejects(capture.recordWav(path), ({ code, message, cause }) => {
      assert.equal(code, 'ERR_FILE');
      assert.equal(cause.code, 'ENOSPC');
      assert.match(message, /no space left on device \(ENOSPC\); free space.*; 2\.7 s were written and can be read/);
      return true;
    });
    await capture.close();
    const wav = readWav(path);
    assert.equal(wav.size, 256 << 10);
    assert.equal(wav.frames, ((256 << 10) - HEADER_BYTES) / 2);
    assertProbe(samplesOf(path));

    // A row of files: all that were complete stay so.
    rmSync(path);
    const row = await burst(1_000);
    const files = [];
    await assert.rejects(row.recordWav(join(disk, '%v.wav'), { roll: { seconds: 1 }, onFile: (file) => files.push(file) }), { code: 'ERR_FILE' });
    await row.close();
    assert.deepEqual(files.slice(0, 2).map(({ frames }) => frames), [SECOND, SECOND]);
    files.forEach(({ path: name, frames }) => assert.equal(readWav(name).frames, frames));
  } finally {
    spawnSync('umount', [disk]);
  }
});

test('a row of files has every frame once', async () => {
  for (const [roll, lengths] of [
    [{ seconds: 0.25 }, [12_000, 12_000, 12_000, 12_000, 2_400]],
    [{ bytes: HEADER_BYTES + 40_001 }, [20_000, 20_000, 10_400]],
    [{ seconds: 0.25, bytes: HEADER_BYTES + 20_000 }, [10_000, 10_000, 10_000, 10_000, 10_000, 400]],
  ]) {
    const row = mkdtempSync(join(folder, 'row-'));
    const capture = await burst(105);
    const files = [];
    const summary = await capture.recordWav(join(row, 'day-%Y%m%d-%03v-100%%.wav'), { roll, onFile: (file) => files.push(file) });
    assert.deepEqual(files.map(({ frames }) => frames), lengths);
    assert.equal(summary.files, lengths.length);
    assert.equal(summary.frames, 50_400);
    assert.equal(summary.bytes, 50_400 * 2 + lengths.length * HEADER_BYTES);
    assert.deepEqual(readdirSync(row).length, lengths.length);
    assert.match(files[1].path, /day-20\d{6}-002-100%\.wav$/);
    let first = 0;
    for (const { path, frames } of files) {
      assertComplete(path, frames);
      assertProbe(samplesOf(path), first);
      first += frames;
    }
  }
});

test('a percent sign is a percent sign where there is one file', async () => {
  const capture = await burst(1);
  await capture.recordWav(at('100%.wav'));
  assertComplete(at('100%.wav'), 480);
});

test('a file above 4 GiB is an RF64 file', async () => {
  const format = { sampleRate: SECOND, channels: 1, sample: 's16' };
  const path = at('large.wav');
  const before = 2 ** 32 - 2_000;
  const sink = await openSink(path, () => false);
  const file = new WavFile(path, sink, format);
  await file.begin();
  // So many bytes are a hole of the file.
  truncateSync(path, HEADER_BYTES + before);
  sink.size = HEADER_BYTES + before;
  file.writtenBytes = before;
  await file.append([Buffer.alloc(1_000, 1)]);
  assert.deepEqual([readWav(path).form, readWav(path).dataBytes], ['RIFF', before + 1_000]);
  await file.append([Buffer.alloc(2_000, 1)]);
  await file.close();
  const wav = readWav(path);
  const dataBytes = before + 3_000;
  assert.deepEqual(
    [wav.form, wav.riffBytes, wav.dataBytes, wav.sampleCount, wav.inFile],
    ['RF64', HEADER_BYTES - 8 + dataBytes, dataBytes, dataBytes / 2, dataBytes],
  );
  const head = wavHeader(format, dataBytes);
  assert.deepEqual([head.readUInt32LE(4), head.readUInt32LE(82), head.readUInt32LE(90)], [UNKNOWN, UNKNOWN, UNKNOWN]);
  if (isInstalled('ffprobe')) assert.equal(probedFrames(path), dataBytes / 2);
});

test('an odd number of bytes is padded, and not counted', async () => {
  const capture = await AudioCapture.open({
    source: { kind: 'synthetic', synthetic: { pace: 'burst', packets: 1, format: { sampleRate: 48_000, sample: 's16' } } },
    format: { sampleRate: 11_025, sample: 'mulaw' },
    packetMs: 40,
  });
  const { frames } = await capture.recordWav(at('odd.wav'));
  const wav = readWav(at('odd.wav'));
  assert.deepEqual([wav.frames, wav.inFile, wav.riffBytes], [frames, frames + (frames % 2), wav.size - 8]);
});

/** Positions of channels and what ffprobe calls them; the mask is that of the WAVE specification. */
const LAYOUTS = [
  { channels: 1, layout: 'unknown', tag: 1 },
  { channels: 2, layout: 'unknown', tag: 1 },
  { channels: 3, layout: '3.0', mask: 0x7 },
  { channels: 4, layout: 'quad', mask: 0x33 },
  { channels: 5, layout: '5.0', mask: 0x37 },
  { channels: 6, layout: '5.1', mask: 0x3f },
  { channels: 7, layout: '6.1', mask: 0x70f },
  { channels: 8, layout: '7.1', mask: 0x63f },
  { channelMap: ['front-left', 'front-right', 'front-center', 'side-left', 'side-right'], layout: '5.0(side)', mask: 0x607 },
  // In another order than that of files, and without positions: a mask would be wrong.
  { channelMap: ['front-center', 'front-left', 'front-right'], layout: 'unknown', mask: 0 },
  { channelMap: ['aux0', 'aux1', 'aux2', 'aux3'], layout: 'unknown', mask: 0 },
];

test('a file of more than two channels tells their positions', async () => {
  for (const [number, { layout, mask, tag = 0xfffe, ...format }] of LAYOUTS.entries()) {
    const path = at(`layout-${number}.wav`);
    const capture = await open({ pace: 'burst', packets: 20, format }, { format });
    const { frames, bytes } = await capture.recordWav(path);
    const { channels } = capture.format;
    const wav = readWav(path);
    assert.deepEqual([wav.frames, wav.channels, wav.size, wav.riffBytes], [frames, channels, bytes, bytes - 8], layout);
    const head = readFileSync(path).subarray(0, 128);
    assert.equal(head.readUInt16LE(56), tag);
    if (mask !== undefined) assert.equal(head.readUInt32LE(76), mask, layout);
    const samples = samplesOf(path);
    assertProbe(samples.filter((_, sample) => sample % channels === 0));
    if (isInstalled('soxi')) assert.equal(execFileSync('soxi', ['-c', path], { encoding: 'utf8' }).trim(), `${channels}`);
    if (isInstalled('ffprobe')) assert.equal(probedLayout(path), layout);
  }
});
