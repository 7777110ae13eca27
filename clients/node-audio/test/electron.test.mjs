// What Electron forbids: buffers of memory that an addon has. All of it is JavaScript's own here.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const skip = process.platform !== 'linux' || spawnSync('cc', ['--version']).status !== 0 ? 'cc makes what is preloaded' : false;

/** Each way to read, and what else the addon gives. */
const script = `
  import { Worker, isMainThread } from 'node:worker_threads';
  import { AudioCapture } from '@steppe/audio';
  const open = (options) => AudioCapture.open({ source: { kind: 'synthetic', synthetic: { packets: 20 } }, ...options });
  let packets = 0;
  for await (const { bytes } of await open()) packets += bytes.buffer instanceof SharedArrayBuffer;
  for await (const { bytes } of await open({ mode: 'copy' })) packets += bytes.length > 0;
  for await (const batch of (await open()).batches()) packets += batch.length;
  // A stream of bytes joins the packets that came while the loop was busy: 480 frames of two bytes each.
  for await (const chunk of (await open()).toReadable()) packets += chunk.length / 960;
  const shared = await open();
  const worker = new Worker(
    "const { AudioReader } = require('@steppe/audio');" +
    "AudioReader.receive().then((reader) => require('node:worker_threads').parentPort.postMessage([...reader].length));",
    { eval: true, execArgv: [] },
  );
  shared.share(worker);
  packets += await new Promise((resolve) => worker.once('message', resolve));
  await AudioCapture.devices().catch(() => {});
  await AudioCapture.processes().catch(() => {});
  console.log(packets);
`;

test('where external buffers are forbidden, nothing asks for one', { skip }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-electron-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const library = join(folder, 'refuses.so');
  const built = spawnSync('cc', ['-shared', '-fPIC', '-o', library, join(here, 'no-external-buffers.c')], { encoding: 'utf8' });
  assert.equal(built.status, 0, built.stderr);
  const env = { ...process.env, LD_PRELOAD: library };
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { cwd: here, env, encoding: 'utf8' });
  assert.equal(stdout, '100\n', stderr);
  // Node-API is looked up by name, so what would make one is the library's.
  assert.match(stderr, /in place of napi_create_external_arraybuffer/);
  assert.doesNotMatch(stderr, /is refused/);
});
