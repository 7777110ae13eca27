// One listener of a sound server that plays a probe, for bench/device.mjs: `node listen.mjs WAY PACKET_MS [SECONDS]`. With SECONDS it
// prints when each packet came and ends; without, it listens until it is killed. WAY is `events`, `worker`, `decibri`,
// `naudiodon`, or `pipe`: what another program writes to standard input. `events@MS` and `worker@MS` set wakeMs.
import { createRequire } from 'node:module';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { AudioCapture, AudioReader } from '@steppe/audio';
import { numberOf } from '../test/pulse-server.mjs';

const peers = createRequire(new URL('peers/', import.meta.url));

/** Packets as they came: the number of the first frame, frames, and ns of the clock of `hrtime` at the listener and in the packet. */
class Log {
  rows = [];

  see(samples, frames, timeNs) {
    const arrived = Number(process.hrtime.bigint());
    const number = numberOf(samples, 0);
    if (number > 0) this.rows.push([number, frames, arrived, timeNs ?? null]);
  }
}

function seeBytes(log, bytes) {
  const samples = new Uint16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + (bytes.length & ~3)));
  log.see(samples, samples.length / 2);
}

/** Bytes of a pipe, which ends chunks where it likes. */
function byPipe(log) {
  let rest = Buffer.alloc(0);
  process.stdin.on('data', (chunk) => {
    const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    rest = bytes.subarray(bytes.length & ~3);
    if (bytes.length >= 4) seeBytes(log, bytes);
  });
}

function byDecibri(log, packetMs) {
  const { Microphone } = peers('decibri');
  const source = new Microphone({ sampleRate: 48_000, channels: 2, framesPerBuffer: 48 * packetMs, format: 'int16' });
  source.on('data', log ? (chunk) => seeBytes(log, chunk) : () => {});
}

function byNaudiodon(log, packetMs) {
  const { AudioIO, SampleFormat16Bit } = peers('naudiodon');
  const inOptions = { channelCount: 2, sampleFormat: SampleFormat16Bit, sampleRate: 48_000, deviceId: -1, framesPerBuffer: 48 * packetMs };
  const source = new AudioIO({ inOptions });
  source.on('data', log ? (chunk) => seeBytes(log, chunk) : () => {});
  source.start();
}

async function byCapture(log, packetMs, named, seconds) {
  const [way, wakeMs] = named.split('@');
  const format = { channels: 2, sampleRate: 48_000, sample: 's16' };
  const capture = await AudioCapture.open({ source: { kind: 'loopback' }, packetMs, ...(wakeMs && { wakeMs: Number(wakeMs) }), format });
  if (way === 'worker') capture.share(new Worker(new URL(import.meta.url), { workerData: { seconds: log ? seconds : 0 } }).on('message', print));
  else capture.on('packet', log ? ({ samples, frames, timeNs }) => log.see(unsigned(samples), frames, timeNs) : () => {});
}

const unsigned = (samples) => new Uint16Array(samples.buffer, samples.byteOffset, samples.length);

function print(rows) {
  process.stdout.write(`\n${JSON.stringify(rows)}\n`, () => process.exit());
}

async function main() {
  const [way, packetMs, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
  const log = seconds > 0 ? new Log() : undefined;
  if (way === 'pipe') byPipe(log);
  else if (way === 'decibri') byDecibri(log, packetMs);
  else if (way === 'naudiodon') byNaudiodon(log, packetMs);
  else await byCapture(log, packetMs, way, seconds);
  // A Worker prints what it saw itself.
  if (log && way !== 'worker') setTimeout(() => print(log.rows), seconds * 1e3);
}

async function inWorker() {
  const reader = await AudioReader.receive();
  const { seconds } = workerData;
  const log = seconds > 0 ? new Log() : undefined;
  const until = process.hrtime.bigint() + BigInt(seconds) * 1_000_000_000n;
  for (const { samples, frames, timeNs } of reader) {
    if (log === undefined) continue;
    log.see(unsigned(samples), frames, timeNs);
    if (process.hrtime.bigint() > until) return parentPort.postMessage(log.rows);
  }
}

if (isMainThread) await main();
else await inWorker();
