/**
 * Checks of options, in depth: unknown names with a suggestion, and values with their limits. Each shape has a
 * rule for every option of its type, which the compiler checks.
 */
import { AudioError } from './error';
import { SAMPLE_BYTES } from './layout';
import { PRESETS } from './presets';
import type {
  AudioFormat,
  BatchOptions,
  CaptureOptions,
  GateOptions,
  RecordOptions,
  RingOptions,
  RollOptions,
  Source,
  StreamOptions,
  SyntheticOptions,
} from './types';

export function invalid(message: string): AudioError {
  return new AudioError('ERR_INVALID_OPTION', `invalid option: ${message}`);
}

/** Throws unless the value is valid; `path` names it in the message. */
type Rule = (value: unknown, path: string) => void;
type Shape<T> = { readonly [Name in keyof Required<T>]: Rule };

function show(value: unknown): string {
  if (typeof value === 'string') return `'${value}'`;
  if (typeof value === 'number' || typeof value === 'boolean' || value == null) return String(value);
  return Array.isArray(value) ? 'an array' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** A rule by a test, and what the message expects. */
const rule =
  (expected: string, isValid: (value: unknown) => boolean): Rule =>
  (value, path) => {
    if (!isValid(value)) throw invalid(`${path} is ${show(value)}; expected ${expected}`);
  };

const isNumber = (value: unknown): value is number => typeof value === 'number' && !Number.isNaN(value);
const within = (min: number, max: number): Rule =>
  rule(`${min} to ${max}`, (value) => isNumber(value) && value >= min && value <= max);
const whole = (min: number, max: number): Rule =>
  rule(`a whole number from ${min} to ${max}`, (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max);
const above = (min: number): Rule => rule(`a number above ${min}`, (value) => isNumber(value) && value > min);
const atLeast = (min: number): Rule => rule(`at least ${min}`, (value) => isNumber(value) && value >= min);
const text = rule('a string', (value) => typeof value === 'string');
const flag = rule('true or false', (value) => typeof value === 'boolean');
const call = rule('a function', (value) => typeof value === 'function');
const signal = rule('an AbortSignal', (value) => value instanceof AbortSignal);
const oneOf = (...words: readonly string[]): Rule =>
  rule(`one of ${words.join(', ')}`, (value) => typeof value === 'string' && words.includes(value));

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An object with these options, each of which may be left out. */
const object =
  <T>(shape: Shape<T>): Rule =>
  (value, path) => {
    if (!isObject(value)) throw invalid(`${path === '' ? 'the options are' : `${path} is`} ${show(value)}; expected an object`);
    for (const [name, found] of Object.entries(value)) {
      const full = path === '' ? name : `${path}.${name}`;
      const check = Object.hasOwn(shape, name) ? shape[name as keyof T] : undefined;
      if (check === undefined) throw invalid(`unknown option '${full}'; ${hint(name, Object.keys(shape))}`);
      if (found !== undefined) check(found, full);
    }
  };

function hint(name: string, known: readonly string[]): string {
  const near = known
    .map((word) => ({ word, distance: distanceOf(name.toLowerCase(), word.toLowerCase()) }))
    .sort((one, other) => one.distance - other.distance)[0];
  const isNear = near !== undefined && near.distance <= Math.max(1, Math.floor(near.word.length / 3));
  return isNear ? `did you mean '${near.word}'?` : `expected one of ${known.join(', ')}`;
}

/** Edits from one word to another: letters that are added, removed, replaced or swapped with the next. */
function distanceOf(one: string, other: string): number {
  let [before, last]: [number[], number[]] = [[], Array.from({ length: other.length + 1 }, (_, at) => at)];
  for (let row = 1; row <= one.length; row += 1) {
    const now = [row];
    for (let column = 1; column <= other.length; column += 1) {
      const isSame = one[row - 1] === other[column - 1];
      const isSwapped = row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      now[column] = Math.min(
        (last[column] as number) + 1,
        (now[column - 1] as number) + 1,
        (last[column - 1] as number) + (isSame ? 0 : 1),
        isSwapped ? (before[column - 2] as number) + 1 : Infinity,
      );
    }
    [before, last] = [last, now];
  }
  return last[other.length] as number;
}

const isMap = (value: unknown): boolean =>
  Array.isArray(value) && value.length >= 1 && value.length <= 32 && value.every((name) => typeof name === 'string');

const FORMAT: Shape<AudioFormat> = {
  sampleRate: whole(4_000, 384_000),
  channels: whole(1, 32),
  sample: oneOf(...Object.keys(SAMPLE_BYTES)),
  // Native code knows the names.
  channelMap: rule('1 to 32 positions', isMap),
};

const SYNTHETIC: Shape<SyntheticOptions> = {
  signal: oneOf('tone', 'probe', 'silence', 'speech'),
  frequencyHz: whole(1, 192_000),
  driftPpm: within(-10_000, 10_000),
  pace: oneOf('realtime', 'burst'),
  speed: rule('above 0, at most 10000', (value) => isNumber(value) && value > 0 && value <= 10_000),
  packets: whole(0, 0xffff_ffff),
  format: object(FORMAT),
};

const KIND = oneOf('input', 'loopback', 'process', 'synthetic');

const SOURCE: Shape<Source> = {
  kind: KIND,
  deviceId: text,
  pid: whole(1, 0xffff_ffff),
  startTimeMs: whole(0, Number.MAX_SAFE_INTEGER),
  program: text,
  follow: oneOf('restart', 'children', 'none'),
  synthetic: object(SYNTHETIC),
};

const RING: Shape<RingOptions> = { slots: whole(2, 16_384), slotBytes: whole(1, 16 << 20) };

const GATE: Shape<GateOptions> = {
  thresholdDb: within(-90, 0),
  hangoverMs: within(0, 10_000),
  prerollMs: within(0, 1_000),
};

const source: Rule = (value, path) => {
  object(SOURCE)(value, path);
  KIND((value as Partial<Source>).kind, `${path}.kind`);
};

/** One source, or two. */
const sources: Rule = (value, path) => {
  if (!Array.isArray(value)) return source(value, path);
  if (value.length !== 2) throw invalid(`${path} has ${value.length} sources; expected one source or an array of two`);
  value.forEach((one, index) => source(one, `${path}[${index}]`));
};

const CAPTURE: Shape<CaptureOptions> = {
  preset: oneOf(...Object.keys(PRESETS)),
  source: sources,
  combine: oneOf('mix', 'side-by-side'),
  format: object(FORMAT),
  packetMs: within(1, 1_000),
  wakeMs: within(1, 1_000),
  ring: object(RING),
  overrun: oneOf('drop-oldest', 'drop-newest', 'error'),
  silence: oneOf('emit', 'skip'),
  mode: oneOf('zero-copy', 'copy'),
  convert: oneOf('allow', 'refuse'),
  gate: (value, path) => (typeof value === 'boolean' ? undefined : object(GATE)(value, path)),
  debug: flag,
  signal,
};

const BATCHES: Shape<BatchOptions> = { maxMs: within(1, 10_000), maxPackets: whole(1, 16_384) };

const ROLL: Shape<RollOptions> = { seconds: above(0), bytes: whole(1_024, Number.MAX_SAFE_INTEGER) };

const RECORD: Shape<RecordOptions> = {
  seconds: above(0),
  signal,
  fillGaps: flag,
  roll: object(ROLL),
  onFile: call,
};

const STREAM: Shape<StreamOptions> = {
  token: rule('a string or a function', (value) => typeof value === 'string' || typeof value === 'function'),
  headers: (value, path) => {
    if (!isObject(value)) throw invalid(`${path} is ${show(value)}; expected an object`);
    for (const [name, field] of Object.entries(value)) text(field, `${path}.${name}`);
  },
  maxRequestMs: atLeast(100),
  maxRequestBytes: atLeast(1),
  maxHeldSlots: whole(1, 16_384),
  giveUpMs: atLeast(0),
  ca: rule('a string or a Buffer', (value) => typeof value === 'string' || value instanceof Uint8Array),
  signal,
  onResponse: call,
};

const check =
  <T extends object>(shape: Shape<T>) =>
  (options: T): T => {
    object(shape)(options, '');
    return options;
  };

/** Options as they are, once they are valid. */
export const checked = {
  capture: check(CAPTURE),
  batches: check(BATCHES),
  record: check(RECORD),
  stream: check(STREAM),
  reader: check<{ debug?: boolean }>({ debug: flag }),
};
