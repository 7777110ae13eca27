// Readers of WAV files: one of our own by the chunks, and those of others.
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** What the chunks of a file say, and how many bytes of samples it has. RIFF, or RF64 by EBU Tech 3306. */
export function readWav(path) {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    // A file that was just opened.
    if (size < 12) return { size, dataBytes: 0, inFile: 0, frames: 0 };
    const bytes = Buffer.alloc(Math.min(size, 1 << 20));
    readSync(file, bytes, 0, bytes.length, 0);
    const id = (at) => bytes.toString('latin1', at, at + 4);
    const isLarge = id(0) === 'RF64';
    const found = { form: id(0), riffBytes: bytes.readUInt32LE(4), size };
    for (let at = 12; at < bytes.length; ) {
      const [name, length] = [id(at), bytes.readUInt32LE(at + 4)];
      const content = at + 8;
      if (name === 'ds64') {
        [found.riffBytes, found.dataBytes, found.sampleCount] = [0, 8, 16].map((offset) => Number(bytes.readBigUInt64LE(content + offset)));
      } else if (name === 'fmt ') {
        [found.channels, found.sampleRate, found.frameBytes] = [bytes.readUInt16LE(content + 2), bytes.readUInt32LE(content + 4), bytes.readUInt16LE(content + 12)];
      } else if (name === 'data') {
        if (!isLarge) found.dataBytes = length;
        const inFile = size - content;
        return { ...found, dataAt: content, inFile, frames: found.dataBytes / found.frameBytes };
      }
      at = content + length + (length % 2);
    }
    return { ...found, dataBytes: 0, inFile: 0, frames: 0 };
  } finally {
    closeSync(file);
  }
}

/** The 16-bit samples that the header of a small file counts. */
export function samplesOf(path) {
  const { dataAt, dataBytes } = readWav(path);
  const file = openSync(path, 'r');
  const samples = new Uint16Array(dataBytes / 2);
  readSync(file, samples, 0, dataBytes, dataAt);
  closeSync(file);
  return samples;
}

const PYTHON = 'import sys, wave\nfor path in sys.argv[1:]:\n  with wave.open(path) as file: print(len(file.readframes(1 << 30)) // file.getsampwidth() // file.getnchannels())';

/** Frames that each program reads of each file. */
export const PROGRAMS = {
  soxi: (paths) => execFileSync('soxi', ['-s', ...paths], { encoding: 'utf8' }).trim().split('\n').slice(0, paths.length).map(Number),
  python: (paths) => execFileSync('python3', ['-c', PYTHON, ...paths], { encoding: 'utf8' }).trim().split('\n').map(Number),
  ffmpeg: (paths) => paths.map((path) => execFileSync('ffmpeg', ['-v', 'error', '-i', path, '-f', 's16le', '-'], { maxBuffer: 64 << 20 }).length / 2),
};

/** Frames of a file of any size, by its header. */
export function probedFrames(path) {
  const args = ['-v', 'error', '-show_entries', 'stream=duration_ts', '-of', 'csv=p=0', path];
  return Number(execFileSync('ffprobe', args, { encoding: 'utf8' }).trim());
}

/** The layout of the channels by the header. */
export function probedLayout(path) {
  const args = ['-v', 'error', '-show_entries', 'stream=channel_layout', '-of', 'csv=p=0', path];
  return execFileSync('ffprobe', args, { encoding: 'utf8' }).trim();
}

export const isInstalled = (command) => spawnSync('sh', ['-c', `command -v ${command}`]).status === 0;
