// The wake of the event loop: what it keeps, and how it ends.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { AudioCapture } from '@steppe/audio';

const here = fileURLToPath(new URL('.', import.meta.url));

function run(script, env = {}) {
  const args = ['--input-type=module', '-e', script];
  return spawnSync(process.execPath, args, { cwd: here, encoding: 'utf8', timeout: 60_000, env: { ...process.env, ...env } });
}

const OPEN = `
  import { AudioCapture } from '@steppe/audio';
  const open = (packets) => AudioCapture.open({ source: { kind: 'synthetic', synthetic: { packets } } });
`;

test('listeners have the asynchronous context that the capture was opened in', async () => {
  const storage = new AsyncLocalStorage();
  const source = { kind: 'synthetic', synthetic: { packets: 20 } };
  const capture = await storage.run('mine', () => AudioCapture.open({ source }));
  const seen = new Set();
  // The first packets wait for their listener.
  while (capture.stats().captured < 5) await turn();
  capture.on('packet', () => seen.add(storage.getStore()));
  await new Promise((resolve) => capture.once('end', resolve));
  assert.deepEqual([...seen], ['mine']);
});

test('what a listener queues runs before the loop goes on, and what it throws is not lost', () => {
  const { stdout, stderr } = run(`${OPEN}
    const capture = await open(5);
    const order = [];
    process.on('uncaughtException', (error) => order.push(error.message));
    capture.on('packet', ({ sequence }) => {
      process.nextTick(() => order.push('tick ' + sequence));
      Promise.resolve().then(() => order.push('microtask ' + sequence));
      setImmediate(() => order.push('immediate ' + sequence));
      if (sequence === 2) throw new Error('mine');
    });
    capture.on('end', () => setTimeout(() => console.log(JSON.stringify(order)), 10));
  `);
  assert.notEqual(stdout, '', stderr);
  const order = JSON.parse(stdout);
  assert.equal(order.length, 16);
  assert.ok(order.includes('mine'));
  for (let packet = 0; packet < 5; packet += 1) {
    const at = (what) => order.indexOf(`${what} ${packet}`);
    assert.ok(at('tick') >= 0 && at('microtask') > at('tick') && at('immediate') > at('microtask'), stdout);
  }
});

test('a Worker or a process that ends in mid-capture takes its doorbell along', () => {
  const { stdout, stderr, status } = run(`${OPEN}
    import { Worker } from 'node:worker_threads';
    const script = \`
      const { AudioCapture } = require('@steppe/audio');
      const { parentPort } = require('node:worker_threads');
      AudioCapture.open({ source: { kind: 'synthetic', synthetic: { speed: 20 } } }).then((capture) => {
        let packets = 0;
        capture.on('packet', () => { if ((packets += 1) === 20) parentPort.postMessage('captures'); });
      });\`;
    for (let round = 0; round < 8; round += 1) {
      const worker = new Worker(script, { eval: true, execArgv: [] });
      await new Promise((resolve) => worker.once('message', resolve));
      await worker.terminate();
    }
    // As many as are open when the process ends.
    for (let count = 0; count < 3; count += 1) (await open()).on('packet', () => {});
    // One that ends by itself, and one that is never started.
    await (await open(2)).close();
    console.log('alive');
    setTimeout(() => process.exit(7), 50);
  `);
  assert.equal(stdout, 'alive\n', stderr);
  assert.equal(status, 7, stderr);
});

test('a capture that is unreferenced lets the process end, and one that is referenced again does not', () => {
  const { stdout, stderr, status } = run(`${OPEN}
    const capture = await open(30);
    let packets = 0;
    capture.on('packet', () => (packets += 1)).on('end', () => console.log(packets));
    capture.unref();
    capture.ref();
    (await open()).unref().on('packet', () => {});
  `);
  assert.equal(stdout, '30\n', stderr);
  assert.equal(status, 0, stderr);
});
