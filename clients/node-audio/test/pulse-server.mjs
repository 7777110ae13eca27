// A PulseAudio server of our own, as an ordinary process without a sound card, and its players.
import { spawn, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

const FORMAT = ['--raw', '--format=s16le', '--channels=2'];

export class PulseServer {
  players = [];

  /** Its sink plays samples as pactl calls them. */
  constructor({ sample = 's16le', rate = 48_000, isPreferred = false, sharesMemory = true } = {}) {
    this.sample = sample;
    /** Clients are given references to blocks, not copies. */
    this.sharesMemory = sharesMemory;
    /** Other programs do not keep it and its players from the processors, where that may be asked for. */
    this.isPreferred = isPreferred;
    this.rate = rate;
    this.folder = mkdtempSync(join(tmpdir(), 'steppe-pulse-'));
    this.socket = join(this.folder, 'native');
    this.env = { ...process.env, XDG_RUNTIME_DIR: this.folder, HOME: this.folder };
    this.env.PULSE_SERVER = process.env.PULSE_SERVER = `unix:${this.socket}`;
  }

  /** Starts it with a null sink, and waits until it answers. */
  async start() {
    const script = join(this.folder, 'server.pa');
    writeFileSync(
      script,
      `load-module module-native-protocol-unix auth-anonymous=1 socket=${this.socket}\n` +
        `load-module module-null-sink sink_name=zc format=${this.sample} rate=${this.rate} channels=2\n`,
    );
    const args = ['-n', '-F', script, '--daemonize=no', '--exit-idle-time=-1', '--use-pid-file=no'];
    args.push('--realtime=no', '--high-priority=no', '--log-target=stderr', '--log-level=error');
    if (!this.sharesMemory) args.push('--disable-shm=yes');
    // Debian's pulseaudio will not run as root without a word of warning, which is fine here.
    this.process = this.spawn('pulseaudio', args, 'ignore');
    while (!this.answers()) {
      if (this.process.exitCode !== null) throw new Error('pulseaudio has ended');
      await delay(20);
    }
  }

  spawn(program, args, stdio) {
    const [first, ...others] = this.isPreferred ? ['nice', '-n', '-12', program, ...args] : [program, ...args];
    return spawn(first, others, { env: this.env, stdio });
  }

  answers() {
    if (!existsSync(this.socket)) return false;
    try {
      return this.pactl('info').includes('Default Sink: zc');
    } catch {
      return false;
    }
  }

  pactl(...args) {
    return execFileSync('pactl', args, { env: this.env, encoding: 'utf8', stdio: 'pipe' });
  }

  /** Plays raw frames (s16, stereo, at the sink's rate), a buffer or chunks of them, until they are over or it is stopped. */
  play(frames, { latencyMs = 200 } = {}) {
    const args = ['--playback', ...FORMAT, `--rate=${this.rate}`, '--device=zc', `--latency-msec=${latencyMs}`];
    const player = this.spawn('pacat', args, ['pipe', 'ignore', 'ignore']);
    // It is killed while it reads.
    player.stdin.on('error', () => {});
    Readable.from(Buffer.isBuffer(frames) ? [frames] : frames, { objectMode: false }).pipe(player.stdin);
    this.players.push(player);
    return player;
  }

  async kill() {
    const ended = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await ended;
    rmSync(this.socket, { force: true });
  }

  async stop() {
    this.players.forEach((player) => player.kill('SIGKILL'));
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Frames that tell their number, from `first` on: its low 15 bits left, the next 15 right. */
export function probe(first, count) {
  const samples = new Uint16Array(count * 2);
  for (let frame = 0; frame < count; frame += 1) {
    samples[frame * 2] = (first + frame) & 0x7fff;
    samples[frame * 2 + 1] = ((first + frame) >> 15) & 0x7fff;
  }
  return Buffer.from(samples.buffer);
}

/** A probe by the second, for six hours: then its numbers end. */
export function* longProbe() {
  for (let first = 1; first < 2 ** 30 - 48_000; first += 48_000) yield probe(first, 48_000);
}

/** The number that a frame tells; 0 is silence. */
export const numberOf = (samples, frame) => samples[frame * 2] + samples[frame * 2 + 1] * 0x8000;

/**
 * Checks a probe that was played and captured. Zeros between numbers are the player's underruns:
 * the next number follows on the last one before them. Numbers that are skipped were lost.
 */
export class Checker {
  first = 0;
  last = 0;
  frames = 0;
  lost = 0;
  wrong = 0;

  see({ bytes, frames }) {
    const samples = new Uint16Array(bytes.buffer, bytes.byteOffset, frames * 2);
    for (let frame = 0; frame < frames; frame += 1) {
      const number = numberOf(samples, frame);
      if (number === 0) continue;
      if (this.last > 0 && number <= this.last) this.wrong += 1;
      if (this.last > 0 && number > this.last) this.lost += number - this.last - 1;
      this.first ||= number;
      this.last = number;
      this.frames += 1;
    }
  }
}
