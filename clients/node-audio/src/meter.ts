import type { AudioCapture } from './capture';

/** Interval at which the meter is drawn, in ms. */
const EVERY_MS = 100;
const WIDTH = 50;
const FLOOR_DB = -60;

/** A line of the meter: `#` to the RMS, `|` at the peak. */
export function bar(rmsDb: number, peakDb: number): string {
  const at = (db: number): number => Math.round(Math.min(1, Math.max(0, 1 - db / FLOOR_DB)) * WIDTH);
  const [full, peak] = [at(rmsDb), at(peakDb)];
  const cells = Array.from({ length: WIDTH + 1 }, (_, cell) => (cell < full ? '#' : cell === peak ? '|' : ' '));
  return `[${cells.join('')}] ${db(rmsDb)} RMS ${db(peakDb)} peak`;
}

const db = (value: number): string => (value === -Infinity ? ' -inf' : value.toFixed(1).padStart(5)) + ' dBFS';

/** Shows the level until the capture ends: drawn over itself in a terminal, else a line each. */
export async function meter(
  capture: AudioCapture,
  { isJson, isTerminal }: { isJson: boolean; isTerminal: boolean },
): Promise<void> {
  for await (const batch of capture.batches({ maxMs: EVERY_MS })) {
    if (batch.length === 0) continue;
    const { droppedFrames } = capture.stats();
    const level = capture.level();
    if (isJson) process.stdout.write(`${JSON.stringify({ ...level, droppedFrames })}\n`);
    else {
      const lost = droppedFrames > 0 ? `, ${droppedFrames} frames lost` : '';
      process.stdout.write(`${isTerminal ? '\r\x1b[K' : ''}${bar(level.rmsDb, level.peakDb)}${lost}${isTerminal ? '' : '\n'}`);
    }
  }
  if (isTerminal && !isJson) process.stdout.write('\n');
}
