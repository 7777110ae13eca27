// A sound server without a sound card, which plays a probe: each frame tells its number. `node bench/sound.mjs [PORT]`
// says where it is (PULSE_SERVER), and answers it on that port of loopback, until it is told to end.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { PulseServer, longProbe } from '../test/pulse-server.mjs';

const server = new PulseServer();
await server.start();
// Two seconds wait in the server: a machine that is busy for less has no gap in what is played.
const player = server.play(longProbe(), { latencyMs: 2_000 });

async function end(code) {
  player.removeAllListeners('exit');
  await server.stop();
  process.exit(code);
}

player.once('exit', () => void end(1));
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void end(0));

const port = process.argv[2];
if (port !== undefined) {
  const answers = createServer((_request, response) => response.end(process.env.PULSE_SERVER));
  await once(answers.listen(Number(port), '127.0.0.1'), 'listening');
}
console.log(process.env.PULSE_SERVER);
