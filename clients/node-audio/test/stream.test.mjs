// Streams over HTTP/2: to a server of Node.js's, and through the gateway that cargo built.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createH2Server } from 'node:http2';
import { createServer as createTlsServer } from 'node:https';
import { createRequire } from 'node:module';
import { connect, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { AudioCapture, FrameDecoder } from '@steppe/audio';
import { createOrigin } from '../examples/origin.mjs';
import { Gateway, missing, token } from './gateway.mjs';

const { Control, Record } = createRequire(import.meta.url)('../dist/layout.js');

const probe = (options, packets = 0) =>
  AudioCapture.open({
    source: { kind: 'synthetic', synthetic: { signal: 'probe', packets, ...options } },
  });

async function listening(server) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server.address().port;
}

function received(origin) {
  assert.equal(origin.streams.size, 1);
  return [...origin.streams.values()][0].report();
}

test('a capture arrives bit-exact through the gateway with a JWT, across rotations', { skip: missing }, async (t) => {
  const origin = createOrigin();
  const server = createServer(origin.handle);
  const gateway = new Gateway();
  t.after(() => [gateway.stop(), server.close(), server.closeAllConnections()]);
  await gateway.start(`servers = ["127.0.0.1:${await listening(server)}"]`);

  // Slow enough that the ring is never full.
  const capture = await probe({ speed: 2 }, 600);
  // A frame of 1,008 bytes; four requests or more.
  const summary = await capture.streamTo(gateway.url, { token, maxRequestBytes: 150_000 });
  assert.equal(summary.packets, 600);
  assert.equal(summary.reconnects, 0);
  assert.ok(summary.requests >= 4, `${summary.requests} requests`);
  assert.deepEqual(received(origin), {
    next: 288_000,
    frames: 288_000,
    gapFrames: 0,
    duplicates: 0,
    wrong: 0,
    requests: summary.requests,
  });
  assert.equal(capture.stats().slots.free, capture.stats().slots.total);
});

test('a request is followed by another when it is old', async (t) => {
  const origin = createOrigin();
  const server = createH2Server(origin.handle);
  t.after(() => server.close());
  const capture = await probe({}, 120);
  const url = `http://127.0.0.1:${await listening(server)}/`;
  const answers = [];
  const summary = await capture.streamTo(url, {
    maxRequestMs: 100,
    onResponse: (chunk, request) => answers.push([request, JSON.parse(chunk).next]),
  });
  assert.ok(summary.requests >= 4, `${summary.requests} requests`);
  assert.equal(answers.length, summary.requests);
  const { frames, gapFrames, wrong } = received(origin);
  assert.deepEqual({ frames, gapFrames, wrong }, { frames: 57_600, gapFrames: 0, wrong: 0 });
});

test('the gap of a forced disconnect is told to the frame', async (t) => {
  const origin = createOrigin();
  const server = createH2Server(origin.handle);
  const port = await listening(server);
  // A relay of TCP whose connections can be cut in the middle.
  const sockets = new Set();
  const relay = createTcpServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    }
    client.pipe(upstream).pipe(client);
  });
  t.after(() => [relay.close(), server.close(), sockets.forEach((socket) => socket.destroy())]);
  const url = `http://127.0.0.1:${await listening(relay)}/`;

  // More than the ring holds while the server is away: 16 slots of 10 ms, and 100 ms of pause.
  const capture = await AudioCapture.open({
    source: { kind: 'synthetic', synthetic: { signal: 'probe', packets: 1_000, speed: 10 } },
    ring: { slots: 16 },
  });
  let isOver = false;
  const streaming = capture.streamTo(url).finally(() => (isOver = true));
  while (!isOver && (origin.streams.values().next().value?.frames ?? 0) < 48_000) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  for (const socket of sockets) socket.destroy();
  const summary = await streaming;
  const { next, frames, gapFrames, wrong } = received(origin);
  assert.ok(summary.reconnects >= 1);
  assert.equal(wrong, 0);
  // Everything that is missing is a gap that the server knows of, and none is more than was lost.
  assert.equal(frames + gapFrames, next);
  const { droppedFrames, capturedFrames } = capture.stats();
  assert.ok(droppedFrames > 0);
  assert.ok(gapFrames >= summary.droppedFrames, `${gapFrames} and ${summary.droppedFrames}`);
  assert.ok(gapFrames <= summary.droppedFrames + summary.unconfirmedFrames);
  assert.equal(capturedFrames, 480_000);
  assert.equal(next + (droppedFrames - summary.droppedFrames), capturedFrames);
});

test('a stream marks losses that are estimated', async (t) => {
  const frames = [];
  const server = createH2Server(async (request, response) => {
    const decoder = new FrameDecoder();
    for await (const chunk of request) frames.push(...decoder.push(chunk));
    response.end();
  });
  t.after(() => server.close());
  const url = `http://127.0.0.1:${await listening(server)}/`;
  const capture = await probe({ pace: 'burst' }, 3);
  const { words } = capture.reader.ring.ring;
  while (Atomics.load(words, Control.head) < 3) await turn();
  // As if the source had lost frames before the second packet.
  for (const slot of [1, 2]) {
    const record = words[Control.table] / 4 + slot * 16;
    words[record + Record.position] += 100;
    words[record + Record.estimated] = 100;
  }
  await capture.streamTo(url);
  const told = frames.map(({ droppedBefore, flags }) => [droppedBefore, flags]);
  assert.deepEqual(told, [[0, 0], [100, 2 + 16], [0, 0]]);
});

test('a token that is refused ends the stream with ERR_STREAM', { skip: missing }, async (t) => {
  const gateway = new Gateway();
  t.after(() => gateway.stop());
  await gateway.start('servers = ["127.0.0.1:9"]');
  const capture = await probe({}, 50);
  await assert.rejects(capture.streamTo(gateway.url, { token: 'x.y.z' }), ({ code, message }) => {
    assert.equal(code, 'ERR_STREAM');
    assert.match(message, /responded with 40[01]/);
    return true;
  });
  await capture.close();
});

test('a server that is never there is given up', async () => {
  const capture = await probe({}, 0);
  await assert.rejects(capture.streamTo('http://127.0.0.1:9/', { giveUpMs: 150 }), { code: 'ERR_STREAM' });
  await capture.close();
  assert.equal(capture.stats().slots.held, 0);
});

/** A certificate of 127.0.0.1 with its key. */
function certificate(t) {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-audio-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [key, cert] = ['key.pem', 'cert.pem'].map((name) => join(folder, name));
  const args = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1'];
  execFileSync('openssl', ['req', '-x509', ...args, '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert], { stdio: 'ignore' });
  return { key: readFileSync(key), cert: readFileSync(cert) };
}

test('a server that speaks HTTP/1.1 only is told at once', async (t) => {
  const tls = certificate(t);
  const servers = [
    ['http', createServer((_, response) => response.end())],
    // It refuses a client that offers no protocol of its own, or ignores what is offered.
    ['https', createTlsServer({ ...tls, ALPNProtocols: ['http/1.1'] }, (_, response) => response.end())],
    ['https', createTlsServer({ ...tls, ALPNCallback: undefined, ALPNProtocols: [] }, (_, response) => response.end())],
  ];
  for (const [scheme, server] of servers) {
    t.after(() => [server.close(), server.closeAllConnections()]);
    const capture = await probe({});
    const url = `${scheme}://127.0.0.1:${await listening(server)}/`;
    // The stream would be given up after a day.
    await assert.rejects(capture.streamTo(url, { ca: tls.cert, giveUpMs: 86_400_000 }), ({ code, message }) => {
      assert.equal(code, 'ERR_STREAM');
      assert.match(message, /127.0.0.1:\d+ speaks HTTP\/1.1 only; streamTo needs a server or gateway with HTTP\/2/);
      return true;
    });
    assert.equal(capture.stats().slots.held, 0);
    await capture.close();
  }
});

test('an abort ends a stream while no sound comes, and while the server is away or silent', async (t) => {
  const silent = createH2Server((request) => request.resume());
  t.after(() => silent.close());
  const silentUrl = `http://127.0.0.1:${await listening(silent)}/`;
  for (const url of [silentUrl, 'http://127.0.0.1:9/']) {
    const capture = await probe({});
    const ended = new AbortController();
    const streaming = capture.streamTo(url, { signal: ended.signal });
    while (capture.stats().delivered < 5) await turn();
    ended.abort();
    assert.ok((await streaming).packets >= 5);
    assert.equal(capture.stats().slots.held, 0);
    await capture.close();
  }
  const mute = await probe({});
  mute.pause();
  const loop = mute[Symbol.asyncIterator]();
  while (mute.stats().pausedFrames === 0 || mute.stats().slots.filled > 0) {
    if (mute.stats().slots.filled > 0) await loop.next();
    else await turn();
  }
  await loop.return();
  const ended = new AbortController();
  const streaming = mute.streamTo(silentUrl, { signal: ended.signal });
  await turn();
  ended.abort();
  assert.equal((await streaming).packets, 0);
  await mute.close();
});

test('what is no URL or no option of a stream is refused', async () => {
  const capture = await probe({}, 1);
  const refused = (url, options, message) => assert.rejects(capture.streamTo(url, options), { code: 'ERR_INVALID_OPTION', message });
  await refused('edge.example/audio', {}, /the URL is 'edge.example\/audio'; expected an absolute URL/);
  await refused('http://x/', { maxRequestMs: 10 }, /maxRequestMs is 10; expected at least 100/);
  await refused('http://x/', { maxHeldSlots: 0 }, /maxHeldSlots is 0/);
  await refused('http://x/', { giveUpMs: NaN }, /giveUpMs is NaN/);
  await refused('http://x/', { bearer: 'x' }, /unknown option 'bearer'; expected one of token, headers/);
  await refused('http://x/', { headers: { a: 1 } }, /headers.a is 1; expected a string/);
  await capture.close();
});
