// Compares ways to hand packets over, each in a process of its own, and prints a table and, with
// `--svg FILE`, a chart. `npm run bench`; SECONDS a case as the variable says, 5 by default.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const MODES = ['copy', 'collected pool', 'ring', 'worker'];
const NAMES = {
  copy: 'copies',
  'collected pool': 'pool that the collector gives back',
  ring: 'ring, events',
  worker: 'ring, a Worker',
};
const seconds = process.env.SECONDS ?? '5';

function measure(mode, rate) {
  const args = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256', fileURLToPath(new URL('case.mjs', import.meta.url))];
  const { stdout, stderr, status } = spawnSync(process.execPath, [...args, mode, String(rate), rate === 0 ? '1' : seconds], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

const rows = [100, 10_000, 0].flatMap((rate) => MODES.map((mode) => measure(mode, rate)));
const fixed = (value, digits) => (!Number.isFinite(value) ? '–' : value.toFixed(digits));
console.log('| packets a second | | heap bytes a packet | retained, KB | external, MB | collections, ms | slot reuse | p99, ms | packets a second, got |');
console.log('|---|---|---:|---:|---:|---:|---:|---:|---:|');
for (const row of rows) {
  const cells = [
    row.rate === 0 ? 'burst' : row.rate.toLocaleString('en'),
    NAMES[row.mode],
    fixed(row.heapBytesPerPacket, 1),
    fixed(row.retainedKb, 0),
    fixed(row.externalMb, 1),
    `${row.collections}, ${fixed(row.collectionMs, 1)}`,
    `${fixed(row.reuse * 100, 1)} %`,
    row.rate === 100 ? fixed(row.p99Ms, 2) : '',
    Math.round(row.packetsPerSecond).toLocaleString('en'),
  ];
  console.log(`| ${cells.join(' | ')} |`);
}
for (const { rate, mode, heapBytesPerWake } of rows) {
  if (mode === 'ring') console.error(`${rate} a second: ${fixed(heapBytesPerWake, 1)} heap bytes a wake`);
}

const at = process.argv.indexOf('--svg');
if (at > 0) writeFileSync(process.argv[at + 1], chart(rows.filter(({ rate }) => rate === 0)));

/** Bars of packets a second in a burst. */
function chart(bursts) {
  const most = Math.max(...bursts.map(({ packetsPerSecond }) => packetsPerSecond));
  const bars = bursts.map(({ mode, packetsPerSecond }, index) => {
    const [y, width] = [40 + index * 34, (packetsPerSecond / most) * 300];
    const number = Math.round(packetsPerSecond / 1e3).toLocaleString('en');
    return `<text x="230" y="${y + 16}" text-anchor="end">${NAMES[mode]}</text><rect x="240" y="${y}" width="${width.toFixed(0)}" height="22" fill="${mode === 'ring' || mode === 'worker' ? '#0a7' : '#999'}"/><text x="${(246 + width).toFixed(0)}" y="${y + 16}">${number} k</text>`;
  });
  const height = 50 + bursts.length * 34;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="620" height="${height}" font-family="sans-serif" font-size="13"><rect width="620" height="${height}" fill="#fff"/><text x="10" y="22" font-weight="bold">Packets a second in a burst (3,840 bytes each)</text>${bars.join('')}</svg>\n`;
}
