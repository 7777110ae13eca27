#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { bench } from './bench';
import { AudioCapture } from './capture';
import { AudioError } from './error';
import { meter } from './meter';
import { PRESETS } from './presets';
import type { CaptureOptions, PresetName, SourceKind } from './types';

const HELP = `Captures microphones, system audio and single programs.

Usage: steppe-audio COMMAND [OPTIONS]

Commands:
  devices          list devices and the programs that play sound
  record FILE      write a WAV file, until Ctrl-C or for --seconds
  level            show a level meter
  bench            measure packets per second, heap allocation and lost frames on this machine
  stream URL       send the capture to a server over HTTP/2

Options:
  --source KIND    input (default), loopback, process or synthetic
  --device ID      device ID, as listed by 'devices'
  --pid N          process ID of the program, with --source process
  --preset NAME    ${Object.keys(PRESETS).join(', ')}
  --rate HZ        sample rate
  --channels N     number of channels
  --sample FORMAT  s16, f32 or mulaw
  --packet-ms N    length of a packet in milliseconds
  --seconds N      end after N seconds
  --token TOKEN    bearer token; default: environment variable STEPPE_AUDIO_TOKEN
  --json           print JSON, one value per line
  -h, --help       print this help

Examples:
  steppe-audio devices
  steppe-audio record meeting.wav --source loopback --seconds 60
  steppe-audio level --source synthetic
  steppe-audio stream https://edge.example/audio --preset whisper --token "$TOKEN"

Exit codes: 0 success, 1 failure, 2 invalid usage, 3 no sound server, device or process,
4 not permitted, 5 the server refused the stream or is unreachable.
`;

const OPTIONS = {
  source: { type: 'string' },
  device: { type: 'string' },
  pid: { type: 'string' },
  preset: { type: 'string' },
  rate: { type: 'string' },
  channels: { type: 'string' },
  sample: { type: 'string' },
  'packet-ms': { type: 'string' },
  seconds: { type: 'string' },
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
  ERR_INVALID_OPTION: 2,
};

function number(values: Values, name: keyof Values): number | undefined {
  const text = values[name];
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text === '' || !Number.isFinite(value)) throw new Usage(`--${name} is '${String(text)}'; expected a number`);
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
function end(seconds?: number): AbortSignal {
  const ended = new AbortController();
  process.once('SIGINT', () => ended.abort());
  process.once('SIGTERM', () => ended.abort());
  if (seconds !== undefined) setTimeout(() => ended.abort(), seconds * 1e3).unref();
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

async function record(path: string, values: Values): Promise<void> {
  const seconds = number(values, 'seconds');
  await withCapture(values, end(), async (capture) => {
    if (!values.json) say(`recording to ${path}${seconds === undefined ? '; press Ctrl-C to stop' : ` for ${seconds} s`}`);
    const summary = await capture.recordWav(path, seconds === undefined ? {} : { seconds });
    if (values.json) return json(summary);
    const length = (summary.frames / capture.format.sampleRate).toFixed(1);
    say(`${length} s, ${summary.bytes} bytes, ${summary.droppedFrames} frames lost`);
  });
}

async function level(values: Values): Promise<void> {
  const look = { isJson: values.json === true, isTerminal: process.stdout.isTTY === true };
  await withCapture(values, end(number(values, 'seconds')), (capture) => meter(capture, look));
}

async function stream(url: string, values: Values): Promise<void> {
  const token = values.token ?? process.env['STEPPE_AUDIO_TOKEN'];
  const options = token === undefined ? {} : { token };
  const signal = end(number(values, 'seconds'));
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
  if (command === 'bench') return bench(number(values, 'seconds') ?? 3, values.json === true);
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
