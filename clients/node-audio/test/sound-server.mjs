// The sound servers that people run, as ordinary processes without a sound card: PulseAudio, and PipeWire with
// WirePlumber and its PulseAudio interface on a session bus of its own. Both have the sink `zc`, and the same methods.
import { once } from 'node:events';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { PulseServer } from './pulse-server.mjs';

export { Checker, PulseServer, longProbe, numberOf, probe } from './pulse-server.mjs';

/** PipeWire. `process` is pipewire-pulse, which clients talk to; `core` is what mixes. */
export class PipeWireServer extends PulseServer {
  helpers = [];

  /** Its sink has channels as PipeWire calls them. A quantum is fixed where one is given, and else what clients ask for. */
  constructor({ position = 'FL FR', rate, quantum, isPreferred } = {}) {
    super({ rate, isPreferred });
    this.position = position;
    this.quantum = quantum;
    this.socket = join(this.folder, 'pulse', 'native');
    const bus = `unix:path=${join(this.folder, 'bus')}`;
    Object.assign(this.env, {
      XDG_CONFIG_HOME: join(this.folder, 'config'),
      XDG_STATE_HOME: join(this.folder, 'state'),
      XDG_CACHE_HOME: join(this.folder, 'cache'),
      PIPEWIRE_RUNTIME_DIR: this.folder,
      DBUS_SESSION_BUS_ADDRESS: bus,
      PULSE_SERVER: `unix:${this.socket}`,
    });
    process.env.PULSE_SERVER = this.env.PULSE_SERVER;
    this.bus = bus;
  }

  /** Starts it with a null sink, and waits until it answers. After a `kill`, only what was killed. */
  async start() {
    if (this.helpers.length === 0) await this.startCore();
    mkdirSync(join(this.folder, 'pulse'), { recursive: true });
    this.process = this.run('pipewire-pulse');
    await this.until(() => this.answers(), this.process);
  }

  async startCore() {
    const settings = join(this.folder, 'config', 'pipewire', 'pipewire.conf.d');
    mkdirSync(settings, { recursive: true });
    const sink = [
      'factory.name = support.null-audio-sink node.name = zc node.description = zc media.class = Audio/Sink',
      `audio.position = [ ${this.position} ] audio.rate = ${this.rate} object.linger = true`,
      'monitor.channel-volumes = true priority.session = 2000 priority.driver = 2000',
    ].join(' ');
    const object = `{ factory = adapter args = { ${sink} } }`;
    const fixed = ['', 'min-', 'max-'].map((bound) => `default.clock.${bound}quantum = ${this.quantum}`);
    const clock = [`default.clock.rate = ${this.rate}`, ...(this.quantum === undefined ? [] : fixed)];
    const properties = `context.properties = { ${clock.join(' ')} }\n`;
    writeFileSync(join(settings, 'sink.conf'), `${properties}context.objects = [ ${object} ]\n`);
    this.helpers.push(this.run('dbus-daemon', '--session', '--nofork', '--nopidfile', `--address=${this.bus}`));
    await this.until(() => existsSync(join(this.folder, 'bus')), this.helpers[0]);
    this.core = this.run('pipewire');
    this.helpers.push(this.core);
    await this.until(() => existsSync(join(this.folder, 'pipewire-0')), this.core);
    this.helpers.push(this.run('wireplumber'));
  }

  run(program, ...args) {
    return this.spawn(program, args, 'ignore');
  }

  async until(isThere, program) {
    while (!isThere()) {
      if (program.exitCode !== null) throw new Error(`${program.spawnfile} has ended`);
      await delay(20);
    }
  }

  async kill() {
    await super.kill();
    rmSync(`${this.socket}.lock`, { force: true });
  }

  async stop() {
    const ended = this.helpers.map((helper) => {
      const exit = helper.exitCode === null && helper.signalCode === null ? once(helper, 'exit') : undefined;
      helper.kill('SIGKILL');
      return exit;
    });
    await Promise.all(ended);
    await super.stop();
  }
}

/** Constructors of both, by name. */
export const SERVERS = { PulseAudio: PulseServer, PipeWire: PipeWireServer };
