// System calls of a packet that a sound server sends, counted by strace: they are what a packet costs beside its sound.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PulseServer, longProbe } from './pulse-server.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const hasTools = ['pulseaudio', 'strace'].every((tool) => spawnSync(tool, ['--version']).status === 0);
const skip = hasTools ? false : 'pulseaudio and strace count';
const [WARM, PACKETS] = [100, 200];

const server = hasTools ? new PulseServer() : undefined;
before(async () => {
  await server?.start();
  server?.play(longProbe(), { latencyMs: 2_000 });
});
after(() => server?.stop());

/** Reads packets, and marks the first that counts and the one after the last by a file that is not there. */
const script = (share) => `
  import { accessSync } from 'node:fs';
  import { Worker, isMainThread } from 'node:worker_threads';
  import { AudioCapture, AudioReader } from '@steppe/audio';
  const capture = await AudioCapture.open({ source: { kind: 'loopback' }, packetMs: 10, format: { channels: 2 } });
  const read = \`let packets = 0;
    const mark = (name) => { try { require('node:fs').accessSync('/' + name); } catch {} };
    const see = () => {
      packets += 1;
      if (packets === ${WARM}) mark('steppe-begin');
      if (packets !== ${WARM + PACKETS}) return;
      mark('steppe-end');
      process.exit();
    };\`;
  const worker = read + \`
    require('@steppe/audio').AudioReader.receive().then((reader) => { for (const packet of reader) see(packet); });\`;
  if (${share}) {
    capture.share(new Worker(worker, { eval: true, execArgv: [] }).on('exit', () => process.exit()));
  } else {
    const { createRequire } = await import('node:module');
    capture.on('packet', new Function('require', read + 'return see;')(createRequire(import.meta.url)));
  }
`;

/** Calls between both marks, of each thread: how many of each name, and in all. */
async function counted(share) {
  const trace = join(server.folder, `trace-${share}`);
  const node = [process.execPath, '--input-type=module', '-e', script(share)];
  const strace = spawn('strace', ['-f', '-o', trace, ...node], { cwd: here, env: server.env, stdio: ['ignore', 'ignore', 'inherit'] });
  await once(strace, 'exit');
  const lines = readFileSync(trace, 'latin1').split('\n');
  const at = (mark) => lines.findIndex((line) => line.includes(mark));
  const threads = new Map();
  for (const line of lines.slice(at('steppe-begin') + 1, at('steppe-end'))) {
    const [, thread, name] = /^(\d+) +(\w+)\(/.exec(line) ?? [];
    if (name === undefined) continue;
    if (!threads.has(thread)) threads.set(thread, { all: 0 });
    const calls = threads.get(thread);
    calls.all += 1;
    calls[name] = (calls[name] ?? 0) + 1;
  }
  const found = [...threads.values()];
  // libpulse polls, the event loop waits by epoll, and a Worker by futex alone.
  const audio = found.find(({ ppoll }) => ppoll > 0);
  const loop = found.find(({ epoll_pwait: polled }) => polled > 0) ?? { all: 0 };
  const worker = found.find((calls) => calls.all > 0 && calls.futex === calls.all) ?? { all: 0 };
  assert.ok(audio?.all > PACKETS / 2, `strace counts: ${JSON.stringify(found)}`);
  // Each call of libpulse asks for the process. Most calls go with a poll, and a busy machine polls once for several
  // packets or, where their parts come late, more often: one call more of each poll or packet is over these bounds.
  const { all, ppoll, getpid } = audio;
  const told = `${JSON.stringify(audio)} for ${PACKETS} packets`;
  assert.ok(getpid <= 4 * ppoll + 2.2 * PACKETS, told);
  assert.ok(all - getpid <= 4.2 * ppoll + 1.2 * PACKETS, told);
  return { audio, loop, worker };
}

test('two packets cost three system calls of the event loop, and no lock', { skip }, async () => {
  const { audio, loop } = await counted(false);
  assert.ok(loop.all > 0 && loop.all / PACKETS <= 2.2, JSON.stringify(loop));
  const futexes = (audio.futex ?? 0) + (loop.futex ?? 0);
  assert.ok(futexes / PACKETS < 0.2, `${futexes} futexes`);
});

test('a packet that a Worker reads costs it one system call, and the event loop none', { skip }, async () => {
  const { loop, worker } = await counted(true);
  assert.ok(worker.all > 0 && worker.all / PACKETS <= 1.5, JSON.stringify(worker));
  assert.ok(loop.all / PACKETS <= 0.5, JSON.stringify(loop));
});
