import { invalid } from './check';

/** A conversion of a pattern: `%`, an optional width, and a letter. */
const CONVERSION = /%(0?\d*)(.|$)/gu;

const PARTS: Record<string, (file: number, time: Date) => [value: number | string, width: number]> = {
  v: (file) => [file, 1],
  Y: (_, time) => [time.getFullYear(), 4],
  m: (_, time) => [time.getMonth() + 1, 2],
  d: (_, time) => [time.getDate(), 2],
  H: (_, time) => [time.getHours(), 2],
  M: (_, time) => [time.getMinutes(), 2],
  S: (_, time) => [time.getSeconds(), 2],
  '%': () => ['%', 1],
};

/** Refuses a pattern with unknown conversions, or without the number that keeps names apart. */
export function checkPattern(pattern: string): void {
  const letters = [...pattern.matchAll(CONVERSION)].map(([, , letter]) => letter as string);
  const unknown = letters.find((letter) => PARTS[letter] === undefined);
  if (unknown !== undefined) {
    throw invalid(`the path has '%${unknown}'; expected %v (file number), %Y, %m, %d, %H, %M, %S (local time) or %%`);
  }
  if (!letters.includes('v')) {
    throw invalid(`the path '${pattern}' has no %v: with 'roll' it must have the file number, as in 'sound-%03v.wav'`);
  }
}

/** The name of a file of this number, from 1 on, that begins at this time: `%03v` is the number in three digits. */
export function nameOf(pattern: string, file: number, time: Date): string {
  return pattern.replace(CONVERSION, (_, digits: string, letter: string) => {
    const [value, width] = (PARTS[letter] as (typeof PARTS)[string])(file, time);
    return String(value).padStart(digits === '' ? width : Number(digits), '0');
  });
}
