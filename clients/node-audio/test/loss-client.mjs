// A process that captures a probe and judges what came, so that a test can stop it as a whole. It prints `open`, then a line
// of JSON for each line that it reads; an empty line ends it. `atOpen` stops it there, or blocks its event loop.
import { createInterface } from 'node:readline';

import { numberOf } from './pulse-server.mjs';
import { Capture, DISCONTINUITY } from './ring-reader.mjs';

const { options, atOpen } = JSON.parse(process.argv[2]);
const msFrames = options.sampleRate / 1e3;

/** Counts what is missing: as the probe has it, and as packets tell it. */
const judged = {
  packets: 0,
  /** Frames that came, and those that came until the first and the last one with a number. */
  frames: 0,
  framesToFirst: 0,
  framesToLast: 0,
  first: 0,
  last: 0,
  /** Frames without a number between them: the player had none, unless they are a new stream's first. */
  silent: 0,
  silentAtStart: 0,
  told: 0,
  dropped: 0,
  estimated: 0,
  /** Packets whose time jumps ahead or back and which do not say so. */
  unflagged: 0,
  /** The most that a packet's first frame is ahead of its publication. */
  aheadMs: -Infinity,
  gaps: [],
};
/** Packets that are looked at for when they came: a second. */
const SPAN = 100;
/** When each packet was published, less the length of all that came. */
const latesMs = [];
/** Packets that came before it happened. */
let marked = SPAN;

/**
 * What is missing by the least late packets of the first and the last second: whatever is told, and whatever is late for a
 * while.
 */
function missingMs() {
  const [first, last] = [latesMs.slice(0, marked).slice(-SPAN), latesMs.slice(-SPAN)];
  return Math.min(...last) - Math.min(...first);
}

let [next, nextNs, position, hasNumber] = [0, 0, 0, true];

/** Notes numbers; frames whose number is not near the last one are not the probe's, but resampled. */
function read(bytes, frames) {
  const samples = new Uint16Array(bytes.buffer, bytes.byteOffset, frames * 2);
  for (let frame = 0; frame < frames; frame += 1) {
    const number = numberOf(samples, frame);
    judged.frames += 1;
    hasNumber ||= number !== 0;
    if (number === 0 && judged.first > 0) judged[hasNumber ? 'silent' : 'silentAtStart'] += 1;
    if (number <= judged.last) continue;
    if (judged.first === 0) [judged.first, judged.framesToFirst] = [number, judged.frames];
    [judged.last, judged.framesToLast] = [number, judged.frames];
  }
}

function see({ bytes, frames, position: at, lostBefore, estimatedBefore, flags, timeNs, publishedNs }) {
  judged.packets += 1;
  const dropped = at - next - lostBefore;
  const jumpNs = nextNs === 0 ? 0 : timeNs - nextNs;
  const isFlagged = (flags & DISCONTINUITY) !== 0 || dropped > 0;
  if (lostBefore > 0 || dropped > 0) judged.gaps.push({ at, lostBefore, dropped, flags });
  if (Math.abs(jumpNs) > 30e6 && !isFlagged) judged.unflagged += 1;
  if (lostBefore > 0) hasNumber = false;
  judged.aheadMs = Math.max(judged.aheadMs, (timeNs - publishedNs) / 1e6);
  judged.told += lostBefore;
  judged.dropped += dropped;
  judged.estimated += estimatedBefore;
  position += frames;
  latesMs.push(publishedNs / 1e6 - position / msFrames);
  read(bytes, frames);
  next = at + frames;
  nextNs = timeNs + (frames * 1e6) / msFrames;
}

function block(ms) {
  const until = Date.now() + ms;
  while (Date.now() < until);
}

const capture = new Capture(options, see);
await capture.event('open');
process.stdout.write('open\n');
if (atOpen === 'stop') process.kill(process.pid, 'SIGSTOP');
if (atOpen > 0) block(atOpen);

createInterface({ input: process.stdin }).on('line', (line) => {
  if (line === 'mark') marked = judged.packets;
  if (line.startsWith('block')) block(Number(line.slice(6)));
  const events = capture.events.map(({ kind, lostFrames, message, format }) => ({ kind, lostFrames, message, format }));
  console.log(JSON.stringify({ ...judged, missingMs: missingMs(), droppedCounted: capture.reader.counter('droppedFrames'), events }));
  if (line === '') process.exit();
});
