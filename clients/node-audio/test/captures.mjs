// Captures of a synthetic probe, for tests of JavaScript.
import { setImmediate as turn } from 'node:timers/promises';

import { AudioCapture } from '@steppe/audio';

/** A capture of a probe; `synthetic` and `options` are added to its options. */
export const open = (synthetic, options) =>
  AudioCapture.open({ source: { kind: 'synthetic', synthetic: { signal: 'probe', ...synthetic } }, ...options });

/** A capture that is open and from which no sound comes. */
export async function mute() {
  const capture = await open({});
  capture.pause();
  while (capture.stats().pausedFrames === 0) await turn();
  const loop = capture[Symbol.asyncIterator]();
  while (capture.stats().slots.filled > 0) await loop.next();
  await loop.return();
  return capture;
}
