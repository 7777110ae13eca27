// Captures sound, sends packets that pass the gate to the gateway, and prints the worker's responses:
// `node agent.mjs URL TOKEN [SOURCE]`.
import { AudioCapture } from '@steppe/audio';

const [url, token, kind = 'input'] = process.argv.slice(2);
const signal = process.env.PACKETS ? { synthetic: { signal: 'speech', packets: Number(process.env.PACKETS) } } : {};

const capture = await AudioCapture.open({
  source: { kind, ...signal },
  preset: 'openai-realtime',
  gate: { hangoverMs: 200 },
});
process.once('SIGINT', () => capture.close());

let rest = '';
await capture.streamTo(url, {
  token,
  // The worker answers when a request ends: each second.
  maxRequestMs: 1_000,
  onResponse: (chunk) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    for (const { begin, frames, rms } of lines.map((line) => JSON.parse(line))) {
      const seconds = (count) => (count / capture.format.sampleRate).toFixed(2);
      console.log(`heard ${seconds(frames)} s from ${seconds(begin)} s on, ${(20 * Math.log10(rms)).toFixed(1)} dBFS`);
    }
  },
});
