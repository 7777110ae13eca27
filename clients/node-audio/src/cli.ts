#!/usr/bin/env node
import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { parseArgs } from 'node:util';
import { bench } from './bench';
import { AudioCapture } from './capture';
import { AudioError } from './error';
import { meter } from './meter';
import { PRESETS } from './presets';
import { TIMEOUT_MS_MAX } from './timeout';
import type { CaptureOptions, PresetName, RecordOptions, SourceKind } from './types';

const HELP = `Captures microphones, system audio and single programs.

Usage: steppe-audio COMMAND [OPTIONS]

Commands:
  devices          list devices and the programs that play sound
  record FILE      write a WAV file, until Ctrl-C or for --seconds; '-' is standard output
  level            show a level meter
  bench            measure packets per second, heap allocation and lost frames on this machine
  stream URL       send the capture to a server over HTTP/2

Options:
  --source KIND    input (default), loopback, process or synthetic
  --device ID      device ID, as listed by 'devices'
  --pid N          process ID of the program, with --source process
  --program NAME   name or executable of the program, with --source process
  --follow WHAT    restart, children or none, with --source process
  --preset NAME    ${Object.keys(PRESETS).join(', ')}
  --rate HZ        sample rate
  --channels N     number of channels
  --sample FORMAT  s16, f32 or mulaw
  --packet-ms N    length of a packet in milliseconds
  --seconds N      end after N seconds
  --roll-seconds N record a row of files of N seconds; FILE is a pattern
  --roll-bytes N   record a row of files of at most N bytes; FILE is a pattern
  --token TOKEN    bearer token; default: environment variable STEPPE_AUDIO_TOKEN
  --json           print JSON, one value per line
  -h, --help       print this help

A pattern has %v, the number of the file (%03v: in three digits), and may have %Y %m %d %H %M %S, the
local time at which the file begins.

Examples:
  steppe-audio devices
  steppe-audio record meeting.wav --source loopback --seconds 60
  steppe-audio record day-%Y%m%d-%03v.wav --roll-seconds 3600
  steppe-audio record - --source loopback | ffmpeg -i - meeting.mp3
  steppe-audio level --source synthetic
  steppe-audio stream https://edge.example/audio --preset whisper --token "$TOKEN"

Exit codes: 0 success, 1 failure, 2 invalid usage, 3 no sound server, device or process,
4 not permitted, 5 the server refused the stream or is unreachable, 6 a file can't be written.
`;

const OPTIONS = {
  source: { type: 'string' },
  device: { type: 'string' },
  pid: { type: 'string' },
  program: { type: 'string' },
  follow: { type: 'string' },
  preset: { type: 'string' },
  rate: { type: 'string' },
  channels: { type: 'string' },
  sample: { type: 'string' },
  'packet-ms': { type: 'string' },
  seconds: { type: 'string' },
  'roll-seconds': { type: 'string' },
  'roll-bytes': { type: 'string' },
  token: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

class Usage extends Error {}

function parsed(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new Usage((error as Error).message);
  }
}

type Values = ReturnType<typeof parsed>['values'];

const EXIT: Partial<Record<AudioError['code'], number>> = {
  ERR_NO_SERVER: 3,
  ERR_NO_DEVICE: 3,
  ERR_NO_PROCESS: 3,
  ERR_PERMISSION: 4,
  ERR_STREAM: 5,
  ERR_FILE: 6,
  ERR_INVALID_OPTION: 2,
};

function number(values: Values, name: keyof Values): number | undefined {
  const text = values[name];
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text === '' || !Number.isFinite(value)) throw new Usage(`--${name} is '${String(text)}'; expected a number`);
  return value;
}

/** The length that `--seconds` gives. */
function seconds(values: Values): number | undefined {
  const value = number(values, 'seconds');
  if (value !== undefined && value <= 0) throw new Usage(`--seconds is ${value}; expected a number above 0`);
  return value;
}

function captureOptions(values: Values): CaptureOptions {
  const rate = number(values, 'rate');
  const channels = number(values, 'channels');
  const packetMs = number(values, 'packet-ms');
  const pid = number(values, 'pid');
  return {
    source: {
      kind: (values.source ?? 'input') as SourceKind,
      ...(values.device === undefined ? {} : { deviceId: values.device }),
      ...(pid === undefined ? {} : { pid }),
      ...(values.program === undefined ? {} : { program: values.program }),
      ...(values.follow === undefined ? {} : { follow: values.follow as 'none' }),
    },
    ...(values.preset === undefined ? {} : { preset: values.preset as PresetName }),
    format: {
      ...(rate === undefined ? {} : { sampleRate: rate }),
      ...(channels === undefined ? {} : { channels }),
      ...(values.sample === undefined ? {} : { sample: values.sample as 's16' }),
    },
    ...(packetMs === undefined ? {} : { packetMs }),
  };
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const json = (value: unknown): void => say(JSON.stringify(value));

async function listDevices(values: Values): Promise<void> {
  const devices = await AudioCapture.devices();
  // Not every system tells programs apart.
  const processes = await AudioCapture.processes().catch(() => []);
  if (values.json) return json({ devices, processes });
  for (const { id, name, kind, isDefault, sampleRate, channels, backend } of devices) {
    say(`${isDefault ? '*' : ' '} ${kind.padEnd(9)} ${id}\n    ${name} (${backend}, ${sampleRate} Hz, ${channels} channels)`);
  }
  for (const { pid, name } of processes) say(`  process   ${pid}\n    ${name}`);
  if (devices.length === 0) say('no devices found');
}

/** Until Ctrl-C, or so many seconds. */
function end(length = Infinity): AbortSignal {
  const ended = new AbortController();
  process.once('SIGINT', () => ended.abort());
  process.once('SIGTERM', () => ended.abort());
  const wait = (leftMs: number): void => {
    if (leftMs <= 0) return ended.abort();
    const ms = Math.min(leftMs, TIMEOUT_MS_MAX);
    setTimeout(() => wait(leftMs - ms), ms).unref();
  };
  if (length !== Infinity) wait(length * 1e3);
  return ended.signal;
}

/** Opens a capture, and closes it whatever happens: it keeps the process alive. */
async function withCapture<T>(
  values: Values,
  signal: AbortSignal,
  use: (capture: AudioCapture) => Promise<T>,
): Promise<T> {
  const capture = await AudioCapture.open({ ...captureOptions(values), signal });
  try {
    return await use(capture);
  } finally {
    await capture.close();
  }
}

/** Standard output as a target: a file by its path, so that its header can be refreshed. */
function standardOutput(): string | Writable {
  const found = fstatSync(1);
  if (process.stdout.isTTY) throw new Usage("standard output is a terminal; redirect it, or name a file instead of '-'");
  const isStream = found.isFIFO() || found.isSocket();
  return isStream ? new Socket({ fd: 1, readable: false, writable: true }) : '/dev/stdout';
}

async function record(path: string, values: Values): Promise<void> {
  const [length, rollSeconds, rollBytes] = [seconds(values), number(values, 'roll-seconds'), number(values, 'roll-bytes')];
  const target = path === '-' ? standardOutput() : path;
  // Sound goes to standard output, or words do.
  const tell = path === '-' ? (text: string): void => void process.stderr.write(`${text}\n`) : say;
  const signal = end();
  const roll = {
    ...(rollSeconds === undefined ? {} : { seconds: rollSeconds }),
    ...(rollBytes === undefined ? {} : { bytes: rollBytes }),
  };
  const options: RecordOptions = {
    signal,
    ...(length === undefined ? {} : { seconds: length }),
    ...(rollSeconds === undefined && rollBytes === undefined ? {} : { roll }),
  };
  await withCapture(values, signal, async (capture) => {
    if (!values.json) tell(`recording to ${path}${length === undefined ? '; press Ctrl-C to stop' : ` for ${length} s`}`);
    const summary = await capture.recordWav(target, options);
    if (values.json) return tell(JSON.stringify(summary));
    const { frames, bytes, droppedFrames, files } = summary;
    const inFiles = files === 1 ? '' : ` in ${files} files`;
    tell(`${(frames / capture.format.sampleRate).toFixed(1)} s, ${bytes} bytes${inFiles}, ${droppedFrames} frames lost`);
  });
}

async function level(values: Values): Promise<void> {
  const look = { isJson: values.json === true, isTerminal: process.stdout.isTTY === true };
  await withCapture(values, end(seconds(values)), (capture) => meter(capture, look));
}

async function stream(url: string, values: Values): Promise<void> {
  const token = values.token ?? process.env['STEPPE_AUDIO_TOKEN'];
  const options = token === undefined ? {} : { token };
  const signal = end(seconds(values));
  const summary = await withCapture(values, signal, (capture) => capture.streamTo(url, options));
  if (values.json) return json(summary);
  say(`${summary.packets} packets in ${summary.requests} requests, ${summary.droppedFrames} frames lost, ${summary.reconnects} reconnects`);
}

async function main(args: string[]): Promise<void> {
  const { values, positionals } = parsed(args);
  const [command, argument, ...others] = positionals;
  if (values.help || command === 'help') return say(HELP.trimEnd());
  if (command === undefined) throw new Usage('a command is required');
  const wantsArgument = command === 'record' || command === 'stream';
  if (wantsArgument && argument === undefined) throw new Usage(`${command} requires ${command === 'record' ? 'a file' : 'a URL'}`);
  const [surplus] = wantsArgument ? others : positionals.slice(1);
  if (surplus !== undefined) throw new Usage(`unexpected argument '${surplus}'`);
  if (command === 'devices') return listDevices(values);
  if (command === 'record') return record(argument as string, values);
  if (command === 'level') return level(values);
  if (command === 'bench') return bench(seconds(values) ?? 3, values.json === true);
  if (command === 'stream') return stream(argument as string, values);
  throw new Usage(`unknown command '${command}'`);
}

main(process.argv.slice(2)).catch((error: Error & { code?: string }) => {
  const isUsage = error instanceof Usage;
  process.stderr.write(`steppe-audio: ${error.message}\n`);
  if (error.code === 'ERR_NO_SERVER') process.stderr.write("'--source synthetic' needs no sound server.\n");
  if (isUsage) process.stderr.write("Run 'steppe-audio --help' for usage.\n");
  process.exitCode = isUsage ? 2 : (EXIT[error.code as AudioError['code']] ?? 1);
});
