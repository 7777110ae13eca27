// Compares ways to hand packets over, each in a process of its own, at 100 a second what one sound server plays, and
// prints a table for each rate. `npm run bench -- [--svg FILE] [--page FILE]` draws a chart, and puts the tables between the marks of a
// page. Then device.mjs compares what listening to a sound server costs. SECONDS a case as the variable says, 10 by default. `--before FOLDER` compares two builds of the package instead:
// before.mjs.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { PulseServer, longProbe } from '../test/pulse-server.mjs';
import { compare as compareBuilds } from './before.mjs';
import { deviceTables } from './device.mjs';

const file = (option) => {
  const at = process.argv.indexOf(option);
  return at > 0 ? process.argv[at + 1] : undefined;
};
if (file('--before')) {
  const rounds = file('--rounds');
  await compareBuilds(file('--before'), rounds && Number(rounds)).catch((error) => {
    console.error(`error: ${error.message}`);
    process.exit(1);
  });
  process.exit();
}

const { dependencies } = JSON.parse(readFileSync(new URL('peers/package.json', import.meta.url), 'utf8'));
const NAMES = {
  copy: 'copies',
  'collected pool': 'pool that the collector gives back',
  decibri: `decibri ${dependencies.decibri}`,
  ring: 'ring, events',
  worker: 'ring, a Worker',
};
const OURS = ['ring', 'worker'];
const seconds = process.env.SECONDS ?? '10';

const server = new PulseServer({ sample: 'float32le' });
await server.start();
server.play(longProbe());
// What knows ALSA alone comes to the same server.
writeFileSync(join(server.folder, '.asoundrc'), 'pcm.!default { type pulse }\nctl.!default { type pulse }\n');

async function measure(mode, rate) {
  const args = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256', fileURLToPath(new URL('case.mjs', import.meta.url))];
  const { stdout } = await promisify(execFile)(process.execPath, [...args, mode, String(rate), rate === 0 ? '2' : seconds], { env: server.env });
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

const rows = [];
for (const rate of [100, 10_000, 0]) for (const mode of Object.keys(NAMES)) rows.push(await measure(mode, rate));
await server.stop();

const fixed = (value, digits) => (Number.isFinite(value) ? value.toFixed(digits) : '–');
const packets = (value) => Math.round(value).toLocaleString('en');

/** The figures of a case, each with the direction that is better. */
const FIGURES = {
  'heap bytes a packet ↓': (row) => fixed(row.heapBytesPerPacket, 1),
  'heap bytes a wake': (row) => (row.mode === 'ring' ? fixed(row.heapBytesPerWake, 1) : ''),
  'retained, KB ↓': (row) => fixed(row.retainedKb, 0),
  'external, MB ↓': (row) => fixed(row.externalMb, 1),
  'collections, ms ↓': (row) => `${row.collections}, ${fixed(row.collectionMs, 1)}`,
  'slot reuse': (row) => (row.reuse === undefined ? '–' : `${fixed(row.reuse * 100, 1)} %`),
  'frames lost, told': (row) => (row.lost === undefined ? '' : `${row.lost}, ${row.droppedFrames ?? '–'}`),
  'packets a second ↑': (row) => packets(row.packetsPerSecond),
};

const line = (texts) => `| ${texts.join(' | ')} |`;

/** A table of one rate: figures by case, the package's own cases first. A case that can't be run says why in a line below. */
function tableOf(rate) {
  const all = rows.filter((row) => row.rate === rate);
  const ran = all.filter((row) => !row.cannot);
  const ordered = [...ran.filter(isOurs).reverse(), ...ran.filter((row) => !isOurs(row))];
  const title = rate === 0 ? 'in a burst' : `${packets(rate)} packets a second`;
  const head = [line([title, ...ordered.map((row) => NAMES[row.mode])]), `|---|${'---:|'.repeat(ordered.length)}`];
  const figures = Object.entries(FIGURES).map(([label, figure]) => line([label, ...ordered.map(figure)]));
  const missing = all.filter((row) => row.cannot).map((row) => `\n${NAMES[row.mode]}: ${row.cannot}.`);
  return [...head, ...figures, ...missing].join('\n');
}

const isOurs = (row) => OURS.includes(row.mode);
const table = [100, 10_000, 0].map(tableOf).join('\n\n');
console.log(table);
const devices = await deviceTables();
console.log(devices);

/** A chart below another. */
const panel = (title, drawn, at) => `<g transform="translate(0 ${at})"><text x="10" y="22" font-weight="bold">${title}</text>${drawn.join('')}</g>`;

if (file('--svg')) writeFileSync(file('--svg'), chart());
if (file('--page')) {
  let document = readFileSync(file('--page'), 'utf8');
  for (const [mark, text] of [['bench', table], ['device', devices]]) {
    const marks = new RegExp(`(<!-- begin ${mark} -->\\n)[^]*(<!-- end ${mark} -->)`);
    document = document.replace(marks, (_all, begin, end) => `${begin}${text}\n${end}`);
  }
  writeFileSync(file('--page'), document);
}

/** Two charts of bars: what a packet allocates, and how fast packets go. */
function chart() {
  const of = (rate) => rows.filter((row) => row.rate === rate && !row.cannot);
  const allocated = bars(of(100), 'heapBytesPerPacket', (value) => `${value.toFixed(0)} bytes`);
  const speed = bars(of(0), 'packetsPerSecond', (value) => `${packets(value / 1e3)} k`);
  const at = 60 + allocated.length * 34;
  const height = at + 50 + speed.length * 34;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="640" height="${height}" font-family="sans-serif" font-size="13"><rect width="640" height="${height}" fill="#fff"/>${panel('Heap bytes a packet, at 100 a second of a sound server', allocated, 0)}${panel('Packets a second in a burst (3,840 bytes each)', speed, at)}</svg>\n`;
}

function bars(shown, key, label) {
  const most = Math.max(...shown.map((row) => row[key]));
  return shown.map((row, index) => {
    const [y, width] = [40 + index * 34, Math.max(1, (row[key] / most) * 300)];
    const color = OURS.includes(row.mode) ? '#0a7' : '#999';
    return `<text x="230" y="${y + 16}" text-anchor="end">${NAMES[row.mode]}</text><rect x="240" y="${y}" width="${width.toFixed(0)}" height="22" fill="${color}"/><text x="${(246 + width).toFixed(0)}" y="${y + 16}">${label(row[key])}</text>`;
  });
}
