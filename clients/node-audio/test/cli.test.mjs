// The command line, as people type it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const cli = fileURLToPath(new URL('../dist/cli.js', import.meta.url));

/** No sound server, and no sound card either. */
const deaf = {
  ...process.env,
  PULSE_SERVER: 'unix:/dev/null/pulse',
  XDG_RUNTIME_DIR: '/dev/null/none',
  ALSA_CONFIG_PATH: '/dev/null',
};

const run = (...args) => spawnSync(process.execPath, [cli, ...args], { encoding: 'utf8', env: deaf });

test('help has an example for each command that takes an argument', () => {
  const { stdout, status } = run('--help');
  assert.equal(status, 0);
  for (const word of ['devices', 'record meeting.wav', 'level --source', 'stream https://', 'Exit codes']) {
    assert.ok(stdout.includes(word), word);
  }
});

test('record writes a WAV that says what it has', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-audio-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'out.wav');
  const { stdout, status, stderr } = run('record', path, '--source', 'synthetic', '--seconds', '0.5', '--json');
  assert.equal(status, 0, stderr);
  assert.deepEqual(JSON.parse(stdout), { path, files: 1, frames: 24_000, droppedFrames: 0, bytes: 94 + 48_000 });
  const wav = readFileSync(path);
  assert.equal(wav.length, 94 + 48_000);
  assert.equal(wav.toString('latin1', 0, 4), 'RIFF');
  assert.equal(wav.readUInt32LE(4), wav.length - 8);
  assert.deepEqual([wav.readUInt16LE(56), wav.readUInt16LE(58), wav.readUInt32LE(60)], [1, 1, 48_000]);
  assert.equal(wav.readUInt32LE(90), 48_000);
  const samples = new Int16Array(wav.buffer.slice(wav.byteOffset + 94, wav.byteOffset + wav.length));
  assert.ok(Math.max(...samples) > 16_000);
});

test('Ctrl-C ends a recording with a whole file', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-audio-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'out.wav');
  const child = spawn(process.execPath, [cli, 'record', path, '--source', 'synthetic'], { env: deaf });
  let said = '';
  await new Promise((resolve) => child.stdout.on('data', (chunk) => (said += chunk).includes('Ctrl-C') && resolve()));
  child.kill('SIGINT');
  const status = await new Promise((resolve) => child.on('exit', resolve));
  assert.equal(status, 0);
  const wav = readFileSync(path);
  assert.equal(wav.readUInt32LE(90), wav.length - 94);
});

test('record writes to standard output, and a row of files', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-audio-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const source = ['--source', 'synthetic', '--seconds', '0.2'];
  const piped = spawnSync(process.execPath, [cli, 'record', '-', ...source], { env: deaf });
  assert.equal(piped.status, 0);
  assert.equal(piped.stdout.length, 94 + 19_200);
  assert.deepEqual([piped.stdout.readUInt32LE(4), piped.stdout.readUInt32LE(90)], [0xffff_ffff, 0xffff_ffff]);
  assert.match(String(piped.stderr), /0\.2 s, 19294 bytes, 0 frames lost/);

  const path = join(folder, 'redirected.wav');
  const redirected = spawnSync('sh', ['-c', '"$@" > "$0"', path, process.execPath, cli, 'record', '-', ...source], { env: deaf });
  assert.equal(redirected.status, 0);
  assert.equal(readFileSync(path).readUInt32LE(90), 19_200);

  const row = run('record', join(folder, '%v.wav'), ...source, '--roll-seconds', '0.1', '--json');
  assert.equal(row.status, 0, row.stderr);
  assert.equal(JSON.parse(row.stdout).files, 2);
  assert.equal(readFileSync(join(folder, '2.wav')).readUInt32LE(90), 9_600);
});

test('a file that can not be written has an exit code', () => {
  const { status, stderr } = run('record', '/dev/full', '--source', 'synthetic');
  assert.equal(status, 6);
  assert.match(stderr, /cannot write \/dev\/full: no space left on device \(ENOSPC\); free space/);
});

test('level draws a meter', () => {
  const { stdout, status } = run('level', '--source', 'synthetic', '--seconds', '0.5');
  assert.equal(status, 0);
  assert.match(stdout.split('\n')[0], /^\[#+ +\| +\] {2}-9\.\d dBFS RMS {2}-6\.\d dBFS peak$/);
});

test('bench measures each mode', () => {
  const { stdout, status } = run('bench', '--seconds', '0.2', '--json');
  assert.equal(status, 0);
  const rows = JSON.parse(stdout);
  assert.equal(rows.length, 3);
  assert.ok(rows.every(({ packets, droppedFrames }) => packets > 0 && droppedFrames === 0));
});

test('without a sound server each command says so, with an exit code', () => {
  for (const args of [['devices'], ['record', '/tmp/never.wav'], ['level'], ['stream', 'http://127.0.0.1:9/']]) {
    const { stderr, status } = run(...args);
    assert.equal(status, 3, `${args}: ${stderr}`);
    assert.match(stderr, /steppe-audio: no s/, args.join(' '));
  }
});

test('wrong usage is told, with exit code 2', () => {
  for (const [args, message] of [
    [[], /a command is required/],
    [['sing'], /unknown command 'sing'/],
    [['record'], /record requires a file/],
    [['level', 'loud'], /unexpected argument 'loud'/],
    [['level', '--rate', 'x'], /--rate is 'x'/],
    [['record', 'x.wav', '--seconds=-1'], /--seconds is -1; expected a number above 0/],
    [['record', 'x.wav', '--seconds', 'NaN'], /--seconds is 'NaN'/],
    [['record', 'x.wav', '--source', 'synthetic', '--roll-seconds', '1'], /has no %v/],
    [['level', '--volume', '1'], /--volume/],
    [['level', '--source', 'radio'], /source.kind is 'radio'/],
    [['level', '--source', 'synthetic', '--preset', 'radio'], /preset is 'radio'/],
  ]) {
    const { stderr, status } = run(...args);
    assert.equal(status, 2, args.join(' '));
    assert.match(stderr, message);
  }
});

test('a url of another scheme is wrong usage', () => {
  const { status, stderr } = run('stream', 'ftp://x/', '--source', 'synthetic');
  assert.equal(status, 2);
  assert.match(stderr, /the scheme of the URL is ftp:/);
});
