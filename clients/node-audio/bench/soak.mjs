// Captures for so many minutes, and judges: every lost frame is told, every slot comes back, and memory
// that is retained after a forced collection, once a minute, has no slope. `node --expose-gc
// bench/soak.mjs MINUTES`. Ends with 1 when it is not so. Below ten minutes loss and reuse alone count.
import { AudioCapture } from '@steppe/audio';

const minutes = Number(process.argv[2] ?? 60);
/** Of the slope's 95 % interval, in KB a second. */
const SLOPE_KB_MAX = 0.05;

const capture = await AudioCapture.open({
  source: { kind: 'synthetic', synthetic: { signal: 'probe' } },
  format: { channels: 2 },
});
const seen = { frames: 0, dropped: 0, wrong: 0 };
capture.on('packet', ({ samples, frames, position, droppedBefore }) => {
  seen.frames += frames;
  seen.dropped += droppedBefore;
  for (let frame = 0; frame < frames; frame += 1) {
    const number = position + frame;
    const isRight = samples[frame * 2] === (number & 0x7fff) && samples[frame * 2 + 1] === (Math.floor(number / 0x8000) & 0x7fff);
    if (!isRight) seen.wrong += 1;
  }
});

const rows = [];
const beganMs = performance.now();
for (let minute = 1; minute <= minutes; minute += 1) {
  await new Promise((resolve) => setTimeout(resolve, beganMs + minute * 60_000 - performance.now()));
  globalThis.gc();
  const { heapUsed, external, rss } = process.memoryUsage();
  rows.push({ seconds: (performance.now() - beganMs) / 1e3, heapKb: heapUsed / 1024 });
  console.log(JSON.stringify({ minute, heapUsed, external, rss, ...seen }));
}
await capture.close();

const stats = capture.stats();
const failures = [
  [seen.wrong > 0, `${seen.wrong} frames are not what was captured`],
  [seen.frames + stats.droppedFrames !== stats.capturedFrames, 'frames are missing that nothing tells'],
  [seen.dropped !== stats.droppedFrames, `${seen.dropped} frames were told, ${stats.droppedFrames} lost`],
  [stats.reuse !== 1, `slots were reused in ${stats.reuse * 100} %`],
  [stats.copiesPerPacket !== 1, `${stats.copiesPerPacket} copies a packet`],
];
if (minutes >= 10) {
  // The first minutes compile.
  const { slope, margin } = fit(rows.slice(3));
  console.log(`retained heap: ${slope.toFixed(4)} ± ${margin.toFixed(4)} KB/s`);
  failures.push([Math.abs(slope) + margin > SLOPE_KB_MAX, `the slope's interval is not within ± ${SLOPE_KB_MAX} KB/s`]);
}
const failed = failures.filter(([isSo]) => isSo).map(([, message]) => message);
console.log(failed.length === 0 ? `${stats.captured} packets, ${stats.droppedFrames} frames lost, all told` : failed.join('\n'));
process.exitCode = failed.length === 0 ? 0 : 1;

/** Least squares with a 95 % interval, normal for as many rows. */
function fit(points) {
  const mean = (pick) => points.reduce((sum, point) => sum + pick(point), 0) / points.length;
  const [x, y] = [mean(({ seconds }) => seconds), mean(({ heapKb }) => heapKb)];
  const spread = points.reduce((sum, { seconds }) => sum + (seconds - x) ** 2, 0);
  const slope = points.reduce((sum, { seconds, heapKb }) => sum + (seconds - x) * (heapKb - y), 0) / spread;
  const rest = points.reduce((sum, { seconds, heapKb }) => sum + (heapKb - y - slope * (seconds - x)) ** 2, 0);
  return { slope, margin: 2 * Math.sqrt(rest / (points.length - 2) / spread) };
}
