// Captures a sound server's probe for so many minutes, and judges: no frame is lost untold, every slot comes back,
// and memory that is retained after a forced collection, once a minute, has no slope. `node --expose-gc bench/soak.mjs
// MINUTES` ends with 1 when it is not so; below ten minutes loss and reuse alone count. Without MINUTES it is the target
// of scenarios/audio.toml, and answers the lab until it is told to end.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, get } from 'node:http';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { getHeapCodeStatistics } from 'node:v8';
import { AudioCapture } from '@steppe/audio';
import { numberOf } from '../test/pulse-server.mjs';

const minutes = process.argv[2] === undefined ? undefined : Number(process.argv[2]);
const [PORT, SOUND_PORT] = [28030, 28031];
/** Of the slope's 95 % interval, in KB a second. */
const SLOPE_KB_MAX = 0.05;
/** How often the event loop is blocked until packets are lost. */
const BLOCKED_EVERY_MS = (minutes < 10 ? 1 : 10) * 60_000;
/** Packets that are lost then, at least. */
const MISSES = 20;

/** What came. Frames of silence are gaps in what was played: the player's, not the capture's. */
const seen = { packets: 0, frames: 0, dropped: 0, last: 0, skipped: 0, told: 0, wrong: 0, silent: 0 };

function see({ samples, frames, droppedBefore }) {
  seen.packets += 1;
  seen.frames += frames;
  seen.dropped += droppedBefore;
  if (seen.last > 0) seen.told += droppedBefore;
  for (let frame = 0; frame < frames; frame += 1) {
    const number = numberOf(samples, frame);
    if (number === 0) seen.silent += 1;
    else {
      if (number <= seen.last) seen.wrong += 1;
      else if (seen.last > 0) seen.skipped += number - seen.last - 1;
      seen.last = number;
    }
  }
}

/** Packets that found no slot while the event loop was blocked; others have none to miss. */
const blocked = { count: 0, misses: 0, isNow: false };

/** Blocks the event loop until packets are lost: what is told of it is not told in vain. */
async function block(capture) {
  const before = capture.stats().misses;
  blocked.isNow = true;
  const word = new Int32Array(new SharedArrayBuffer(4));
  for (let looks = 0; looks < 250 && capture.stats().misses < before + MISSES; looks += 1) Atomics.wait(word, 0, 0, 20);
  // What waits is read before the next is missed.
  await delay(500);
  blocked.count += 1;
  blocked.misses += capture.stats().misses - before;
  blocked.isNow = false;
}

/** What is wrong so far. */
function faults(capture) {
  const { misses } = capture.stats();
  return [
    [seen.wrong > 0, `${seen.wrong} frames are not what was played`],
    [seen.last === 0 && seen.packets > 1_000, 'nothing is heard of the probe'],
    [seen.skipped !== seen.told, `${seen.skipped} frames of the probe are missing, and ${seen.told} were told`],
    [!blocked.isNow && misses !== blocked.misses, `${misses - blocked.misses} packets found no free slot`],
  ].filter(([isSo]) => isSo).map(([, fault]) => fault);
}

/** What is left to be wrong once it has ended. */
function lastFaults(capture) {
  const { capturedFrames, droppedFrames, copiesPerPacket, slots } = capture.stats();
  return [
    [seen.frames + droppedFrames !== capturedFrames, 'frames are missing that nothing tells'],
    [seen.dropped !== droppedFrames, `${seen.dropped} frames were told, ${droppedFrames} lost`],
    [copiesPerPacket !== 1, `${copiesPerPacket} copies a packet`],
    [slots.free !== slots.total, `${slots.total - slots.free} slots did not come back`],
    [seen.packets < slots.total * 10, 'slots were hardly reused'],
    [blocked.count === 0, 'nothing was lost on purpose'],
  ].filter(([isSo]) => isSo).map(([, fault]) => fault);
}

/** Heap after a collection, by time: KB and seconds. */
const points = [];

function collect() {
  globalThis.gc();
  const { heapUsed, external, rss } = process.memoryUsage();
  // Part of the heap.
  const { code_and_metadata_size: compiled } = getHeapCodeStatistics();
  points.push({ seconds: performance.now() / 1e3, heapKb: heapUsed / 1024 });
  console.log(JSON.stringify({ heapUsed, compiled, external, rss, ...seen, blocked: blocked.count }));
}

/** What the last collection left, in bytes. */
const retained = () => (points.length > 0 ? Math.round(points.at(-1).heapKb * 1024) : process.memoryUsage().heapUsed);

/** Least squares with a 95 % interval, normal for as many points. The first sixth compiles. */
function slope() {
  const counted = points.slice(Math.ceil(points.length / 6));
  const mean = (pick) => counted.reduce((sum, point) => sum + pick(point), 0) / counted.length;
  const [x, y] = [mean(({ seconds }) => seconds), mean(({ heapKb }) => heapKb)];
  const sum = (term) => counted.reduce((total, { seconds, heapKb }) => total + term(seconds - x, heapKb - y), 0);
  const spread = sum((dx) => dx ** 2);
  const value = sum((dx, dy) => dx * dy) / spread;
  const rest = sum((dx, dy) => (dy - value * dx) ** 2);
  return { value, margin: 2 * Math.sqrt(rest / (counted.length - 2) / spread) };
}

/** Judges, and gives the exit code. */
function judge(capture) {
  const found = [...faults(capture), ...lastFaults(capture)];
  if (points.length >= 10) {
    const { value, margin } = slope();
    console.log(`retained heap: ${value.toFixed(4)} ± ${margin.toFixed(4)} KB/s`);
    if (Math.abs(value) + margin > SLOPE_KB_MAX) found.push(`the slope's interval is not within ± ${SLOPE_KB_MAX} KB/s`);
  }
  const { captured, droppedFrames, slots } = capture.stats();
  console.log(`${captured} packets in ${slots.total} slots, ${droppedFrames} frames lost by ${blocked.count} blocks, ${seen.told} told`);
  console.log(found.length === 0 ? 'sound' : found.join('\n'));
  return found.length === 0 ? 0 : 1;
}

/** What the lab asks: `/` is driven once a second, the others in quiet moments. */
function answer(capture, path) {
  const stats = capture.stats();
  const { external, arrayBuffers } = process.memoryUsage();
  if (path === '/collect') return collect();
  if (path === '/heap') return JSON.stringify({ retained: retained() });
  if (path !== '/metrics') return faults(capture).join('\n');
  return `# TYPE nodejs_external_memory_bytes gauge
nodejs_external_memory_bytes ${external}
# TYPE nodejs_array_buffers_bytes gauge
nodejs_array_buffers_bytes ${arrayBuffers}
# TYPE steppe_audio_slots_free gauge
steppe_audio_slots_free ${stats.slots.free}
# TYPE steppe_audio_packets_total counter
steppe_audio_packets_total ${stats.captured}
# TYPE steppe_audio_frames_lost_total counter
steppe_audio_frames_lost_total ${seen.skipped}
# TYPE steppe_audio_frames_told_total counter
steppe_audio_frames_told_total ${seen.told}
# TYPE steppe_audio_player_gap_frames_total counter
steppe_audio_player_gap_frames_total ${seen.silent}
`;
}

async function serve(capture, port) {
  const server = createServer((request, response) => {
    const said = answer(capture, request.url);
    response.statusCode = request.url === '/' && said !== '' ? 500 : 200;
    response.end(said);
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return server;
}

/** Runs all of it often, of a probe that is made up: what V8 learns of code that runs once a second would be growth for hours. */
async function warm() {
  const source = { kind: 'synthetic', synthetic: { signal: 'probe', pace: 'burst' } };
  const capture = await AudioCapture.open({ source, format: { channels: 2 }, ring: { slots: 64 } });
  capture.on('packet', see);
  const server = await serve(capture, 0);
  const url = `http://127.0.0.1:${server.address().port}`;
  for (let round = 0; round < 3_000; round += 1) {
    for (const path of round % 100 === 0 ? ['/', '/metrics', '/heap', '/collect'] : ['/', '/metrics', '/heap']) {
      // Each on a connection of its own: one that is kept may be closed as it is asked on.
      await new Promise((resolve, reject) => get(url + path, { agent: false }, (response) => response.resume().on('end', resolve)).on('error', reject));
    }
  }
  await capture.close();
  server.close();
  points.length = 0;
  for (const name of Object.keys(seen)) seen[name] = 0;
}

async function lastFor(capture, minutes) {
  for (let minute = 0; minute < minutes && faults(capture).length === 0; minute += 1) {
    await delay(60_000);
    collect();
  }
}

const sound = minutes && spawn(process.execPath, [fileURLToPath(new URL('sound.mjs', import.meta.url))], { stdio: ['ignore', 'pipe', 'inherit'] });
process.on('exit', () => sound?.kill());
process.env.PULSE_SERVER = sound
  ? (await once(createInterface(sound.stdout), 'line'))[0]
  : await (await fetch(`http://127.0.0.1:${SOUND_PORT}/`)).text();

await warm();
const capture = await AudioCapture.open({ source: { kind: 'loopback' }, format: { channels: 2 }, ring: { slots: 64 } });
capture.on('packet', see);
capture.once('error', (error) => {
  throw error;
});
setTimeout(() => {
  void block(capture);
  setInterval(() => void block(capture), BLOCKED_EVERY_MS).unref();
}, BLOCKED_EVERY_MS / 2).unref();
if (sound) await lastFor(capture, minutes);
else {
  await serve(capture, PORT);
  await once(process, 'SIGTERM');
}
await capture.close();
process.exit(judge(capture));
