// The voice agent of examples/voice-agent, from the capture to the worker's answers.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { freePort, missing as noGateway, program } from './gateway.mjs';

const example = fileURLToPath(new URL('../../../examples/voice-agent/', import.meta.url));
const worker = process.env.STEPPE_SPEECH ?? join(program, '..', 'examples', 'speech');
const missing = noGateway || (existsSync(worker) ? false : `${worker} is not built`);

/** Runs a program, and gives what it prints as it comes. */
function start(t, command, args, options) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  t.after(() => child.kill('SIGKILL'));
  const said = { text: '', child };
  child.stdout.on('data', (chunk) => (said.text += chunk));
  child.stderr.on('data', (chunk) => (said.text += chunk));
  said.exit = new Promise((resolve) => child.on('exit', resolve));
  return said;
}

async function until(said, look) {
  while (!(await look())) {
    assert.equal(said.child.exitCode, null, said.text);
    await delay(20);
  }
}

test('the agent hears what is said, and nothing else', { skip: missing }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'steppe-agent-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const name of ['agent.mjs', 'token.mjs']) copyFileSync(join(example, name), join(folder, name));
  mkdirSync(join(folder, 'node_modules', '@steppe'), { recursive: true });
  symlinkSync(fileURLToPath(new URL('..', import.meta.url)), join(folder, 'node_modules', '@steppe', 'audio'));

  const speech = start(t, worker, ['127.0.0.1:0']);
  await until(speech, () => speech.text.includes('listening on'));
  const address = speech.text.match(/listening on (\S+)/)[1];
  const [port, admin] = [await freePort(), await freePort()];
  const config = readFileSync(join(example, 'gateway.toml'), 'utf8')
    .replace('127.0.0.1:7701', address)
    .replace('127.0.0.1:8080', `127.0.0.1:${port}`)
    .replace('127.0.0.1:9900', `127.0.0.1:${admin}`);
  writeFileSync(join(folder, 'gateway.toml'), config);
  writeFileSync(join(folder, 'agent.key'), 'a secret of at least thirty-two bytes\n');
  const gateway = start(t, program, ['run', '-c', 'gateway.toml'], { cwd: folder });
  await until(gateway, async () => (await fetch(`http://127.0.0.1:${admin}/readyz`).catch(() => ({}))).ok);

  const token = start(t, process.execPath, ['token.mjs', 'agent.key'], { cwd: folder });
  assert.equal(await token.exit, 0, token.text);
  const args = ['agent.mjs', `http://127.0.0.1:${port}/speech`, token.text.trim(), 'synthetic'];
  const agent = start(t, process.execPath, args, { cwd: folder, env: { ...process.env, PACKETS: '150' } });
  assert.equal(await agent.exit, 0, agent.text);
  const heard = [...agent.text.matchAll(/heard (\d\.\d\d) s from (\d\.\d\d) s on, (-\d+\.\d) dBFS/g)];
  // Two seconds of noise in three, each request told apart.
  assert.ok(heard.length >= 2, agent.text);
  const seconds = heard.reduce((sum, [, length]) => sum + Number(length), 0);
  assert.ok(Math.abs(seconds - 2) < 0.2, agent.text);
  assert.ok(heard.every(([, , , level]) => Math.abs(Number(level) + 10.8) < 2), agent.text);
});
