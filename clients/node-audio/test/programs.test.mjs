// Capture of programs with real sound servers: all streams of a process tree or of a name, mixed; streams that come and
// go; programs that end and start again; PipeWire's own clients.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { Capture, addon } from './ring-reader.mjs';
import { Checker, SERVERS, numberOf, probe } from './sound-server.mjs';
import { undisturbed } from './undisturbed.mjs';

const FORMAT = ['--raw', '--format=s16le', '--rate=48000', '--channels=2'];
const SECOND = 48_000;

/** A capture of a program, which collects the values of its first channel: players play constants. */
class Program {
  seen = new Set();
  last = 0;
  frames = 0;

  constructor(source) {
    const options = { sources: [{ kind: 'process', ...source }], slots: 64 };
    this.capture = new Capture(options, (packet) => this.see(packet));
  }

  see({ bytes, frames, lostBefore }) {
    const samples = new Int16Array(bytes.buffer, bytes.byteOffset, frames * 2);
    for (let frame = 0; frame < frames; frame += 1) this.seen.add(samples[frame * 2]);
    this.last = samples[(frames - 1) * 2];
    this.frames += frames + lostBefore;
  }

  /** Waits until it hears this value. */
  async hears(value) {
    await this.capture.until(() => this.last === value);
  }

  lost() {
    return this.capture.reader.counter('lostFrames');
  }

  close() {
    this.capture.close();
  }
}

/** Numbers of a probe that were heard. */
class Numbers {
  seen = new Set();
  frames = 0;

  see({ bytes, frames }) {
    const samples = new Uint16Array(bytes.buffer, bytes.byteOffset, frames * 2);
    for (let frame = 0; frame < frames; frame += 1) {
      const number = numberOf(samples, frame);
      if (number > 0) this.seen.add(number);
    }
    this.frames += frames;
  }
}

/** Why a capture of a source fails. */
async function failure(source) {
  const { capture } = new Program(source);
  const failed = () => capture.events.find(({ kind }) => kind === 'failed');
  while (failed() === undefined) await delay(5);
  return failed();
}

const long = process.env.STEPPE_LONG ? false : 'STEPPE_LONG runs it';

/** A process that captures another one, and tells for each line how many frames it has. */
const stopped = (pid) => `
  import { createInterface } from 'node:readline';
  import { Capture } from './ring-reader.mjs';
  let frames = 0;
  const options = { sources: [{ kind: 'process', pid: ${pid} }], channels: 1, slotBytes: 960, slots: 8_192 };
  const capture = new Capture(options, (packet) => (frames += packet.frames));
  await capture.event('open');
  createInterface({ input: process.stdin }).on('line', () => {
    console.log(JSON.stringify({ frames, lost: capture.reader.counter('lostFrames') }));
  });
`;

async function until(test) {
  for (;;) {
    const found = await test();
    if (found) return found;
    await delay(20);
  }
}

const listed = async (pid) => (await addon.processes()).programs.find((program) => program.pid === pid);

for (const [name, Server] of Object.entries(SERVERS)) {
  describe(name, () => {
    let server;
    before(async () => {
      server = new Server();
      await server.start();
      for (const value of [1_000, 2_000, 4_000, 8_000]) {
        const sound = Int16Array.from({ length: 60 * SECOND * 2 }, () => value);
        writeFileSync(join(server.folder, `${value}`), Buffer.from(sound.buffer));
      }
    });
    after(() => server.stop());

    const pacat = (value, program = 'pacat') => {
      const named = `--client-name=${program}`;
      return ['--playback', ...FORMAT, '--device=zc', '--latency-msec=100', named, join(server.folder, `${value}`)];
    };

    function run(program, args, options = {}) {
      const child = spawn(program, args, { env: server.env, stdio: 'ignore', ...options });
      child.on('error', () => {});
      server.players.push(child);
      return child;
    }

    /** A program whose child processes play: one for each value that it is told. */
    function tree(...values) {
      const script = 'while read -r value; do pacat $ARGS "$FOLDER/$value" & done; wait';
      const env = { ...server.env, FOLDER: server.folder, ARGS: pacat('').slice(0, -1).join(' ') };
      const shell = run('sh', ['-c', script], { env, stdio: ['pipe', 'ignore', 'ignore'] });
      shell.plays = (value) => shell.stdin.write(`${value}\n`);
      values.forEach(shell.plays);
      return shell;
    }

    /** Waits until so many processes play. */
    const playing = (count) => until(async () => (await addon.processes()).programs.length === count);

    async function quiet() {
      for (const { pid } of (await addon.processes()).programs) process.kill(pid, 'SIGKILL');
      await playing(0);
    }

    const calmly = (judge) => () => undisturbed(judge, quiet);

    test('all streams of a process tree are mixed, new ones too, and no other', calmly(async () => {
      run('pacat', pacat(8_000));
      const shell = tree(1_000, 2_000);
      await playing(3);
      const program = new Program({ pid: shell.pid });
      await program.hears(3_000);
      shell.plays(4_000);
      await program.hears(7_000);
      assert.equal(program.capture.events[0].device, `process ${shell.pid}`);
      // A stream that ends leaves the others.
      const { programs } = await addon.processes();
      const alone = programs.map(({ pid }) => pid).filter((pid) => pid > shell.pid);
      process.kill(Math.max(...alone), 'SIGKILL');
      await program.hears(3_000);
      // Without its children, a process is alone.
      const one = new Program({ pid: Math.min(...alone), follow: 'none' });
      await one.capture.event('open');
      await until(() => [1_000, 2_000].includes(one.last));
      const none = await failure({ pid: shell.pid, follow: 'none' });
      assert.equal(none.code, 'ERR_NO_PROCESS');
      // What streams lose at their ends, when no other plays, counts.
      const lost = program.lost();
      await quiet();
      shell.stdin.end();
      // It ends with the last process of the tree.
      await until(() => program.capture.events.find(({ kind }) => kind === 'ended'));
      for (const { seen } of [program, one]) {
        const sums = [0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000];
        assert.deepEqual([...seen].filter((value) => !sums.includes(value)), []);
      }
      assert.equal(lost, 0);
    }));

    test('no frame is lost where streams are mixed', calmly(async () => {
      const checker = new Checker();
      const silent = server.play(Buffer.alloc(20 * SECOND * 4));
      await until(() => listed(silent.pid));
      const options = { sources: [{ kind: 'process', program: 'pacat' }], slots: 64 };
      const capture = new Capture(options, (packet) => checker.see(packet));
      await capture.event('open');
      server.play(probe(1, 3 * SECOND));
      // Not to its end: a server that comes too late may drop that.
      await capture.until(() => checker.last >= 2 * SECOND);
      capture.close();
      await quiet();
      const found = checker.last - checker.first + 1;
      assert.ok(checker.first < SECOND / 2, `the first frame is ${checker.first}`);
      assert.deepEqual([checker.frames, checker.lost, checker.wrong], [found, 0, 0]);
    }));

    test('a process is known by its start, and a program by its name', async () => {
      const first = run('pacat', pacat(1_000, 'Some Player'));
      run('pacat', pacat(2_000, 'other'));
      await playing(2);
      const { pid, startTimeMs, name: called } = await listed(first.pid);
      assert.equal(called, 'Some Player');
      const known = new Program({ pid, startTimeMs });
      await known.hears(1_000);
      const recycled = await failure({ pid, startTimeMs: startTimeMs - 10 });
      assert.equal(recycled.code, 'ERR_NO_PROCESS');
      const named = new Program({ program: 'some player' });
      await named.hears(1_000);
      const binary = new Program({ program: 'pacat', follow: 'none' });
      await binary.hears(3_000);
      run('pacat', pacat(4_000, 'Some Player'));
      await named.hears(5_000);
      for (const program of [known, named, binary]) program.close();
      await quiet();
      assert.deepEqual([...known.seen].filter((value) => ![0, 1_000].includes(value)), []);
      assert.equal(binary.seen.has(7_000), false);
    });

    test('a program that is restarted is captured again, and nothing plays meanwhile', calmly(async () => {
      const player = run('pacat', pacat(1_000));
      await until(() => listed(player.pid));
      const program = new Program({ pid: player.pid, follow: 'restart' });
      const once = new Program({ pid: player.pid });
      await Promise.all([program.hears(1_000), once.hears(1_000)]);
      player.kill('SIGKILL');
      const { message } = await program.capture.event('reconnecting');
      assert.equal(message, `process ${player.pid} has ended; waiting for its restart`);
      await until(() => once.capture.events.find(({ kind }) => kind === 'ended'));
      const before = program.frames;
      await program.capture.until(() => program.frames > before + SECOND / 4 && program.last === 0);
      // At most what the server had not sent of a fragment when the stream ended.
      const lostAtEnd = program.lost();
      assert.ok(lostAtEnd <= 480, `${lostAtEnd}`);
      run('pacat', pacat(2_000));
      const { lostFrames } = await program.capture.event('reconnected');
      await program.hears(2_000);
      assert.deepEqual([lostFrames, program.lost()], [0, lostAtEnd]);
      program.close();
      await quiet();
    }));

    test('a capture begins with a frame whose time is exact', calmly(async () => {
      server.play(probe(1, 20 * SECOND));
      const [packets, later] = [[], []];
      const note = (list) => ({ bytes, frames, position, timeNs }) => {
        const number = numberOf(new Uint16Array(bytes.buffer, bytes.byteOffset, frames * 2), 0);
        if (number > 0) list.push({ number, position, timeNs });
      };
      const loopback = { sources: [{ kind: 'loopback' }], slots: 64 };
      const before = new Capture(loopback, note(packets));
      await before.until(() => packets.length > 50);
      const capture = new Capture(loopback, note(later));
      await capture.event('open');
      await capture.until(() => later.length > 0);
      const [{ number, position }] = later;
      await before.until(() => packets.at(-1).number > number);
      before.close();
      capture.close();
      await quiet();
      // What the capture that was there before says of the later one's first frame.
      const near = packets.findLast((packet) => packet.number <= number);
      const startNs = near.timeNs + ((number - near.number - position) * 1e9) / SECOND;
      const offMs = (capture.reader.counter('startedNs') - startNs) / 1e6;
      assert.ok(Math.abs(offMs) < 2, `${offMs} ms`);
    }));

    test('short sounds arrive, and what of them does not is told', calmly(async () => {
      // What the program plays beside them: nothing, or silence.
      for (const beside of [0, 20]) {
        const silent = server.play(Buffer.alloc(20 * SECOND * 4));
        await until(() => listed(silent.pid));
        const [played, heard] = [new Numbers(), new Numbers()];
        const all = new Capture({ sources: [{ kind: 'loopback' }], slots: 64 }, (packet) => played.see(packet));
        const sources = [{ kind: 'process', program: 'pacat', follow: 'restart' }];
        const capture = new Capture({ sources, slots: 64 }, (packet) => heard.see(packet));
        const counted = () => ['lostFrames', 'filledFrames', 'unheardFrames'].map((each) => capture.reader.counter(each));
        try {
          await Promise.all([all.event('open'), capture.event('open')]);
          await capture.until(() => heard.frames > SECOND / 4);
          if (beside === 0) silent.kill('SIGKILL');
          await playing(beside === 0 ? 0 : 1);
          // On a busy machine PipeWire links the capture after a sound has ended, or that ends before it is listed.
          for (let [sound, arrived] = [0, 0]; arrived < 2; sound += 1) {
            assert.ok(sound < 10, 'of ten sounds one arrived at most');
            const [first, before] = [1 + 10_000 * sound, counted()];
            const player = server.play(probe(first, 0.07 * SECOND), { latencyMs: 20 });
            await once(player, 'exit');
            const [frames, framesAll] = [heard.frames, played.frames];
            await capture.until(() => heard.frames > frames + SECOND / 4);
            await all.until(() => played.frames > framesAll + SECOND / 4);
            const found = [...heard.seen].find((number) => number >= first);
            if (found === undefined) continue;
            arrived += 1;
            const missing = [...played.seen].filter((number) => number >= first && !heard.seen.has(number));
            const [lost, filled, unheard] = counted().map((count, at) => count - before[at]);
            const since = missing.filter((number) => number > found).length;
            // A fragment that the server has not sent when it ends the recording itself is in the bound alone.
            assert.ok(since - lost - filled <= 480, `${since} frames are missing at the end, ${lost + filled} told`);
            const told = lost + filled + unheard;
            assert.ok(missing.length <= told + 96, `${missing.length} frames are missing, ${told} told`);
          }
        } finally {
          all.close();
          capture.close();
        }
        await quiet();
      }
    }));

    // PipeWire moves a stream without ending its recording.
    const isKept = name === 'PipeWire' && long;
    test('what is lost of a stream that is moved to another sink is told', { skip: isKept }, calmly(async () => {
      const module = server.pactl('load-module', 'module-null-sink', 'sink_name=other', 'rate=48000', 'channels=2').trim();
      const checker = new Checker();
      let told = 0;
      const player = server.play(probe(1, 20 * SECOND), { latencyMs: 500 });
      await until(() => listed(player.pid));
      const capture = new Capture({ sources: [{ kind: 'process', pid: player.pid }], slots: 64 }, (packet) => {
        checker.see(packet);
        told += packet.lostBefore;
      });
      await capture.until(() => checker.last > SECOND / 2);
      const [[index]] = server.pactl('list', 'short', 'sink-inputs').split('\n').map((line) => line.split('\t'));
      server.pactl('move-sink-input', index, 'other');
      const moved = checker.last;
      await capture.until(() => checker.last > moved + SECOND);
      capture.close();
      await quiet();
      server.pactl('unload-module', module);
      if (name === 'PulseAudio') assert.ok(checker.lost > 0, 'PulseAudio ends the recording');
      assert.ok(Math.abs(checker.lost - told) <= 96, `${checker.lost} frames were lost, ${told} told`);
      assert.equal(checker.wrong, 0);
    }));

    test('a lane keeps what came while the process was stopped, and loses nothing', { skip: long }, async () => {
      server.pactl('load-module', 'module-null-sink', 'sink_name=mono', 'rate=48000', 'channels=1', 'format=s16le');
      // The server keeps 22 s of a channel for a client; the ring of a stream has 12.8 s.
      const player = run('pacat', [...pacat(1_000), '--device=mono', '--channels=1']);
      await until(() => listed(player.pid));
      const client = run(process.execPath, ['--input-type=module', '-e', stopped(player.pid)], {
        cwd: new URL('.', import.meta.url),
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      const lines = createInterface({ input: client.stdout })[Symbol.asyncIterator]();
      const frames = async () => {
        client.stdin.write('\n');
        return JSON.parse((await lines.next()).value);
      };
      let before = await frames();
      while (before.frames < SECOND) before = await frames();
      client.kill('SIGSTOP');
      await delay(18_000);
      client.kill('SIGCONT');
      let now = await frames();
      while (now.frames < before.frames + 18 * SECOND) now = await frames();
      client.kill('SIGKILL');
      assert.ok(now.lost <= 480, `${now.lost} frames were told as lost`);
      await quiet();
    });

    if (name !== 'PipeWire') return;
    test("PipeWire's own clients are listed and captured", async () => {
      const file = join(server.folder, 'x.wav');
      const head = Buffer.from('524946462480570157415645666d7420100000000100020080bb000000ee0200040010006461746100805701', 'hex');
      const sound = Int16Array.from({ length: 60 * SECOND * 2 }, () => 2_000);
      writeFileSync(file, Buffer.concat([head, Buffer.from(sound.buffer)]));
      const player = run('pw-cat', ['--playback', '--target=zc', file]);
      const { name: called, startTimeMs } = await until(() => listed(player.pid));
      assert.equal(called, 'pw-cat');
      assert.ok(startTimeMs > 0);
      const sources = [{ pid: player.pid }, { program: 'pw-cat' }].map((source) => new Program(source));
      for (const source of sources) await source.hears(2_000);
      run('pacat', pacat(1_000));
      await playing(2);
      const all = new Program({ pid: process.pid });
      await all.hears(3_000);
      for (const source of [...sources, all]) source.close();
      for (const { seen } of sources) assert.equal(seen.has(3_000), false);
      await quiet();
    });
  });
}
