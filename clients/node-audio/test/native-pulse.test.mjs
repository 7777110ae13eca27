// The addon with a real sound server: what is played is what is captured, and what is lost is told.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { Checker, PulseServer, probe } from './pulse-server.mjs';
import { Capture, DISCONTINUITY, SILENT, addon } from './ring-reader.mjs';

const server = new PulseServer();
before(() => server.start());
after(() => server.stop());

const loopback = { sources: [{ kind: 'loopback' }], slots: 64 };
const SECOND = 48_000;

/** Whether the packet has a sample that is not zero. */
const isLoud = ({ flags }) => (flags & SILENT) === 0;

/** Why a capture of these options fails. */
async function failure(options) {
  const capture = new Capture(options, () => {});
  return new Promise((resolve, reject) => {
    const look = setInterval(() => {
      const [first] = capture.events;
      if (first === undefined) return;
      clearInterval(look);
      if (first.kind === 'failed') return resolve(first);
      capture.close();
      reject(new Error(`it did not fail: ${first.kind}`));
    }, 5);
  });
}

/**
 * A recording of the monitor by `parec`, and packets of a capture beside it: both are given the same frames, whatever the
 * server or the player left out. Positions of packets say where in the recording they are.
 */
class Twin {
  chunks = [];
  packets = [];
  /** Frames that came since the first one with a number. */
  heard = 0;

  constructor(latencyMs = 20) {
    const format = ['--raw', '--format=s16le', '--rate=48000', '--channels=2'];
    const args = ['--device=zc.monitor', ...format, `--latency-msec=${latencyMs}`];
    this.recorder = server.spawn('parec', args, ['ignore', 'pipe', 'ignore']);
    this.recorder.stdout.on('data', (chunk) => this.chunks.push(chunk));
    server.players.push(this.recorder);
  }

  async begun() {
    while (this.chunks.length === 0) await once(this.recorder.stdout, 'data');
  }

  see({ bytes, position, frames }) {
    this.packets.push({ position, bytes: Buffer.from(bytes) });
    if (this.heard > 0 || bytes.some((byte) => byte !== 0)) this.heard += frames;
  }

  /** Ends the recording when it has what the capture has, and counts frames that are the same, others, and missing ones. */
  async compared() {
    const { packets } = this;
    const isLoud = ({ bytes }) => bytes.some((byte) => byte !== 0);
    const loud = packets.findIndex(isLoud);
    const at = packets[loud].bytes.findIndex((byte) => byte !== 0) & ~3;
    const mark = packets[loud].bytes.subarray(at, at + 64);
    const last = packets.at(-1);
    let [all, found] = [Buffer.alloc(0), -1];
    const offset = ({ position }) => found + (position - packets[loud].position) * 4 - at;
    while (found < 0 || offset(last) + last.bytes.length > all.length) {
      await once(this.recorder.stdout, 'data');
      all = Buffer.concat(this.chunks);
      if (found < 0) found = all.indexOf(mark);
    }
    this.recorder.kill('SIGKILL');
    let [same, missing, next] = [0, 0, packets[loud].position];
    for (const packet of packets.slice(loud)) {
      missing += packet.position - next;
      next = packet.position + packet.bytes.length / 4;
      const start = offset(packet);
      for (let byte = 0; byte < packet.bytes.length; byte += 4) {
        same += all.readUInt32LE(start + byte) === packet.bytes.readUInt32LE(byte);
      }
    }
    return { same, missing, others: next - packets[loud].position - missing - same };
  }
}

test('a probe is captured bit for bit, and a device is told in its own format', async () => {
  const twin = new Twin();
  await twin.begun();
  const capture = new Capture(loopback, (packet) => twin.see(packet));
  const { device, format } = await capture.event('open');
  assert.equal(device, 'zc.monitor');
  const channelMap = ['front-left', 'front-right'];
  assert.deepEqual(format, { sampleRate: 48_000, channels: 2, channelMap, sample: 's16' });
  const player = server.play(probe(1, 5 * SECOND));
  await capture.until(() => twin.heard > 2 * SECOND);
  capture.close();
  player.kill('SIGKILL');
  const { same, missing, others } = await twin.compared();
  assert.ok(same > SECOND, `${same} frames`);
  assert.deepEqual([missing, others], [0, 0]);
  assert.equal(capture.reader.counter('copiedFrames'), capture.reader.counter('frames'));
  assert.equal(capture.reader.counter('lostFrames'), 0);
});

test('frames that a blocked event loop loses are frames that positions tell', async () => {
  const twin = new Twin();
  await twin.begun();
  let isBlocked = false;
  const options = { ...loopback, slots: 8 };
  const capture = new Capture(options, (packet) => {
    twin.see(packet);
    if (isBlocked || twin.heard < SECOND / 2) return;
    isBlocked = true;
    // Until more packets came than there are slots for.
    const misses = () => capture.reader.counter('misses');
    const before = misses();
    while (misses() < before + 20) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
  });
  await capture.event('open');
  const player = server.play(probe(1, 8 * SECOND));
  await capture.until(() => twin.heard > 1.5 * SECOND);
  capture.close();
  player.kill('SIGKILL');
  const { same, missing, others } = await twin.compared();
  assert.ok(missing > 0 && same > SECOND, `${same} frames, ${missing} are missing`);
  assert.equal(others, 0);
});

test('a server that is restarted is found again, and the gap is told', async () => {
  let [last, gap] = [undefined, undefined];
  const capture = new Capture(loopback, (packet) => {
    const endNs = last && last.timeNs + (last.frames * 1e9) / SECOND;
    if (packet.lostBefore > 0) gap = { ...packet, endNs };
    last = { timeNs: packet.timeNs, frames: packet.frames };
  });
  await capture.event('open');
  await capture.until(() => capture.reader.counter('frames') > SECOND / 2);
  await server.kill();
  const killedNs = addon.nowNs();
  await capture.event('reconnecting');
  const restartedNs = addon.nowNs();
  await server.start();
  const { lostFrames } = await capture.event('reconnected');
  await capture.until(() => gap);
  capture.close();
  assert.equal(gap.lostBefore, lostFrames);
  assert.notEqual(gap.flags & DISCONTINUITY, 0);
  const packetNs = 10e6;
  const gapNs = gap.timeNs - gap.endNs;
  assert.ok(Math.abs(gapNs - (lostFrames * 1e9) / SECOND) < packetNs, `${gapNs} ns`);
  assert.ok(gap.endNs < killedNs + packetNs, 'nothing was captured after its end');
  assert.ok(gap.timeNs > restartedNs, 'nothing was captured before it was back');
  assert.equal(capture.reader.counter('reconnects'), 1);
});

/** Compares the time that passed with the frames that came and that were told as lost. */
class Times {
  packets = 0;

  see({ timeNs, position }) {
    this.packets += 1;
    this.first ??= { timeNs, position };
    this.last = { timeNs, position };
  }

  untoldMs() {
    const { first, last } = this;
    return (last.timeNs - first.timeNs) / 1e6 - ((last.position - first.position) * 1e3) / SECOND;
  }
}

/** Waits until the server has a stream that records. */
async function recording() {
  while (server.pactl('list', 'short', 'source-outputs') === '') await delay(10);
}

test('frames of an outage are told when another one follows before the first frame', async () => {
  const times = new Times();
  // Fragments of 100 ms: a stream's first packet waits for eight of them.
  const capture = new Capture({ ...loopback, wakeFrames: 4_800 }, (packet) => times.see(packet));
  await capture.event('open');
  await capture.until(() => times.packets > 50);
  for (let outage = 0; outage < 3; outage += 1) {
    await server.kill();
    await server.start();
    await recording();
    // The server renders silence ahead at first, and records what comes after it.
    await new Twin(100).begun();
    await delay(150 * (1 + outage));
  }
  await server.kill();
  await server.start();
  const before = times.packets;
  await capture.until(() => times.packets > before + 20);
  capture.close();
  assert.ok(Math.abs(times.untoldMs()) < 10, `${times.untoldMs()} ms are untold`);
});

test('a monitor that goes away is not replaced by another source', async () => {
  const module = server.pactl('load-module', 'module-null-sink', 'sink_name=gone').trim();
  let [isOther, packets] = [false, 0];
  const sources = [{ kind: 'loopback', deviceId: 'gone' }];
  const capture = new Capture({ ...loopback, sources }, (packet) => {
    packets += 1;
    isOther ||= isLoud(packet);
  });
  const { device } = await capture.event('open');
  assert.equal(device, 'gone.monitor');
  // Something else to listen to.
  server.play(probe(1, 3 * SECOND));
  await capture.until(() => packets > 20);
  server.pactl('unload-module', module);
  await capture.event('reconnecting');
  const before = packets;
  server.pactl('load-module', 'module-null-sink', 'sink_name=gone');
  await capture.event('reconnected');
  await capture.until(() => packets > before + 20);
  capture.close();
  assert.equal(isOther, false);
});

test('one program is captured, and not another', async () => {
  const other = server.play(Buffer.alloc(60 * SECOND * 4, 0x11));
  const player = server.play(probe(1, 60 * SECOND));
  for (;;) {
    assert.ok(other.exitCode === null && player.exitCode === null, 'a player has ended');
    const { programs } = await addon.processes();
    if (programs.filter(({ pid }) => [player.pid, other.pid].includes(pid)).length === 2) break;
  }
  const checker = new Checker();
  const sources = [{ kind: 'process', pid: player.pid }];
  const capture = new Capture({ ...loopback, sources }, (packet) => checker.see(packet));
  await capture.event('open');
  await capture.until(() => checker.frames > SECOND);
  capture.close();
  other.kill();
  player.kill();
  assert.deepEqual([checker.lost, checker.wrong], [0, 0]);
  // Alone: players that end are its children too.
  const { code, message } = await failure({ sources: [{ kind: 'process', pid: 1, follow: 'none' }] });
  assert.equal(code, 'ERR_NO_PROCESS');
  assert.match(message, /AudioCapture.processes\(\)/);
});

test('packets that are grouped wake the event loop once for each group', async () => {
  let packets = 0;
  const options = { ...loopback, wakeFrames: 960 };
  const capture = new Capture(options, () => (packets += 1));
  await capture.event('open');
  const wakes = () => capture.reader.counter('wakes');
  await capture.until(() => packets >= 20);
  const before = { packets, wakes: wakes() };
  await capture.until(() => packets >= before.packets + 200);
  const woken = wakes() - before.wakes;
  capture.close();
  // A busy machine wakes less often; events and a timing report that is late wake once more.
  assert.ok(woken <= 0.6 * (packets - before.packets), `${woken} wakes`);
});

test('devices are listed, and changes told', async () => {
  const { devices } = await addon.devices();
  const monitor = devices.find(({ id }) => id === 'zc.monitor');
  assert.equal(monitor.kind, 'loopback');
  assert.equal(monitor.isDefault, true);
  assert.equal(monitor.backend, 'pulse');
  let changes = 0;
  const watcher = new addon.Watcher(() => (changes += 1));
  const changed = async (count) => {
    while (changes < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  // The first is told when it begins to watch.
  await changed(1);
  const module = server.pactl('load-module', 'module-null-sink', 'sink_name=plugged').trim();
  await changed(2);
  const ids = (await addon.devices()).devices.map(({ id }) => id);
  assert.ok(ids.includes('plugged.monitor'));
  server.pactl('unload-module', module);
  watcher.close();
});

test('what is asked for and is not there has a code', async () => {
  const input = await failure({ sources: [{ kind: 'input' }] });
  assert.equal(input.code, 'ERR_NO_DEVICE');
  assert.match(input.message, /no microphone/);
  const named = await failure({ sources: [{ kind: 'loopback', deviceId: 'nowhere' }] });
  assert.equal(named.code, 'ERR_NO_DEVICE');
  assert.match(named.message, /'nowhere'/);
  const format = { convert: 'refuse', sampleRate: 16_000, packetFrames: 160 };
  const refused = await failure({ ...loopback, ...format });
  assert.equal(refused.code, 'ERR_FORMAT');
  assert.match(refused.message, /the device provides 48000 Hz, 2 channels, s16/);
});

test('a device is resampled and mixed to what was asked for', async () => {
  let [frames, delayed] = [0, 0];
  const asked = { sampleRate: 16_000, channels: 1, sample: 'f32', packetFrames: 160 };
  const capture = new Capture({ ...loopback, ...asked }, (packet) => (frames += packet.frames));
  const { delayFrames } = await capture.event('open');
  delayed = delayFrames;
  await capture.until(() => frames >= 16_000);
  capture.close();
  assert.ok(delayed > 0);
  // Decoded and mixed, resampled, encoded.
  const copied = capture.reader.counter('copiedFrames') / frames;
  assert.ok(copied > 2.8 && copied < 3.2, `${copied}`);
});

test('without a server there is an error that says so', async () => {
  const { PULSE_SERVER } = process.env;
  process.env.PULSE_SERVER = 'unix:/nonexistent/native';
  const { code, message } = await failure(loopback);
  process.env.PULSE_SERVER = PULSE_SERVER;
  assert.equal(code, 'ERR_NO_SERVER');
  assert.match(message, /PULSE_SERVER/);
});
