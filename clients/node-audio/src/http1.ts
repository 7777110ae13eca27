import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

/** Time for which a probe waits for the server's first bytes, in ms. */
const PROBE_MS = 2_000;

/** Connection preface of HTTP/2 and an empty SETTINGS frame: RFC 9113 §3.4. */
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1'), Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])]);

/** Errors of a server that has no protocol in common with a client that offers `h2` only. */
const NO_PROTOCOL = 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL';

/**
 * True if a server answers HTTP/2 with HTTP/1: its TLS selects no `h2`, or its first bytes are a response of
 * HTTP/1. A server that is away or silent is neither.
 */
export async function speaksHttp1(url: URL, ca: string | Buffer | undefined): Promise<boolean> {
  return url.protocol === 'https:' ? refusesAlpn(url, ca) : answersHttp1(url);
}

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

function refusesAlpn(url: URL, ca: string | Buffer | undefined): Promise<boolean> {
  const host = hostOf(url);
  const options = { host, port: Number(url.port || 443), servername: host, ALPNProtocols: ['h2'], ...(ca === undefined ? {} : { ca }) };
  const socket = connectTls(options);
  return probed(socket, (tell) => {
    socket.once('secureConnect', () => tell(socket.alpnProtocol !== 'h2'));
    socket.once('error', ({ code }: NodeJS.ErrnoException) => tell(code === NO_PROTOCOL));
  });
}

function answersHttp1(url: URL): Promise<boolean> {
  const socket = connectTcp({ host: hostOf(url), port: Number(url.port || 80) });
  return probed(socket, (tell) => {
    let head = '';
    socket.once('connect', () => socket.write(PREFACE));
    socket.on('data', (chunk) => {
      head += chunk.toString('latin1');
      if (head.length >= 7) tell(head.startsWith('HTTP/1.'));
    });
    socket.once('error', () => tell(false));
    socket.once('end', () => tell(false));
  });
}

/** The result of a probe, or false after a time; its socket is closed. */
async function probed(socket: Socket, listen: (tell: (isHttp1: boolean) => void) => void): Promise<boolean> {
  const found = await new Promise<boolean>((resolve) => {
    socket.setTimeout(PROBE_MS, () => resolve(false));
    listen(resolve);
  });
  socket.on('error', () => {});
  socket.destroy();
  return found;
}
