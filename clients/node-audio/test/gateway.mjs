// The gateway that cargo built, as a process of its own, with free ports.
import { spawn } from 'node:child_process';
import { createHmac, randomInt } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../target', import.meta.url));
export const program = process.env.STEPPE_BIN ?? join(target, 'debug', 'steppe');
export const missing = existsSync(program) ? false : `${program} is not built`;

const SECRET = 'a secret of at least thirty-two bytes';

const givenOut = new Set();

/** A free port, below those that the kernel gives to connections: one of them would have it first. */
export async function freePort() {
  for (;;) {
    const server = createServer();
    const port = randomInt(10_000, 15_000);
    // It may be free still because nobody listens there yet.
    if (givenOut.has(port)) continue;
    const isFree = await new Promise((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (isFree) {
      await new Promise((resolve) => server.close(resolve));
      givenOut.add(port);
      return port;
    }
  }
}

/** A token that the gateway of these tests takes. */
export function token() {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub: 'test', exp: Math.floor(Date.now() / 1e3) + 600 })}`;
  return `${signed}.${createHmac('sha256', SECRET).update(signed).digest('base64url')}`;
}

export class Gateway {
  folder = mkdtempSync(join(tmpdir(), 'steppe-gateway-'));

  /** `upstream` is the body of the upstream's table, `more` further tables. */
  async start(upstream, more = '') {
    const [port, admin] = [await freePort(), await freePort()];
    this.url = `http://127.0.0.1:${port}/audio`;
    writeFileSync(join(this.folder, 'audio.key'), SECRET);
    const file = join(this.folder, 'gateway.toml');
    writeFileSync(
      file,
      `[node]\nworkers = 1\nmemory_budget = "128MiB"\n[admin]\nlisten = "127.0.0.1:${admin}"\n` +
        `[[http.listener]]\nlisten = "127.0.0.1:${port}"\nprotocols = ["h1", "h2c"]\n` +
        `[http.filter.auth]\nkind = "jwt"\nkeys = [{ algorithm = "HS256", secret_file = "audio.key" }]\n` +
        `[http.upstream.audio]\n${upstream}\n` +
        `[[http.route]]\nname = "audio"\npath = "/audio"\nfilters = ["auth"]\nupstream = "audio"\n${more}`,
    );
    this.process = spawn(program, ['run', '-c', file], { cwd: this.folder, stdio: ['ignore', 'ignore', 'pipe'] });
    let log = '';
    this.process.stderr.on('data', (chunk) => (log += chunk));
    while (!(await this.isReady(admin))) {
      if (this.process.exitCode !== null) throw new Error(`the gateway has ended: ${log}`);
      await delay(20);
    }
  }

  async isReady(admin) {
    const answer = await fetch(`http://127.0.0.1:${admin}/readyz`).catch(() => undefined);
    return answer?.ok === true;
  }

  stop() {
    this.process?.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}
