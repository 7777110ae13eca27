// An origin of Node.js that speaks everything: node origin.js H1 H1S H2C H2 (ports), with cert.pem and
// key.pem in its folder. It answers with JSON of what it saw; some paths do something special.
'use strict';
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const https = require('node:https');
const net = require('node:net');

// 1 MB that repeats itself at no power of two.
const BIG = Buffer.from(Array.from({ length: 1_000_000 }, (_, at) => at % 251));

// Responses that wait for a word from the test, by the name that it gave them: `/go?NAME` is that word.
const waiting = new Map();
// Said before anybody waited for it.
const said = new Set();
// Requests that nothing is special about.
let echoed = 0;

function go(name) {
  const waits = waiting.get(name);
  if (waits === undefined) {
    said.add(name);
  } else {
    waiting.delete(name);
    waits();
  }
}

function word(name) {
  return said.delete(name) ? Promise.resolve() : new Promise((done) => waiting.set(name, done));
}

async function read(request) {
  const hash = crypto.createHash('sha256');
  let length = 0;
  for await (const part of request) {
    length += part.length;
    hash.update(part);
  }
  return { length, sha256: hash.digest('hex') };
}

function seen(request, body) {
  const lines = [];
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    lines.push([request.rawHeaders[at].toLowerCase(), request.rawHeaders[at + 1]]);
  }
  return {
    version: request.httpVersion,
    method: request.method,
    path: request.url,
    host: request.headers[':authority'] ?? request.headers.host,
    cookie: request.headers.cookie ?? null,
    lines,
    trailers: request.trailers,
    isExpected: request.isExpected === true,
    body,
  };
}

// The end of this response is an error, in the middle of its content.
function cut(request, response) {
  if (request.httpVersion === '2.0') {
    response.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
  } else {
    response.socket.destroy();
  }
}

function json(response, value) {
  const text = Buffer.from(JSON.stringify(value));
  response.setHeader('content-type', 'application/json');
  response.setHeader('content-length', text.length);
  response.end(text);
}

// `/NAME?WORD`: what is special about the name's response.
const special = {
  go: (request, response, name) => {
    go(name);
    json(response, {});
  },
  echoed: (request, response) => json(response, { echoed }),
  big: (request, response) => {
    response.setHeader('content-length', BIG.length);
    response.end(BIG);
  },
  // Its length is told by its end alone.
  endless: (request, response) => {
    for (let at = 0; at < BIG.length; at += 7_000) {
      response.write(BIG.subarray(at, at + 7_000));
    }
    response.end();
  },
  nocontent: (request, response) => {
    response.statusCode = 204;
    response.end();
  },
  notmodified: (request, response) => {
    response.setHeader('etag', '"one"');
    response.statusCode = request.headers['if-none-match'] === '"one"' ? 304 : 200;
    response.end(response.statusCode === 304 ? undefined : 'one');
  },
  cookies: (request, response) => {
    response.setHeader('set-cookie', ['a=1; Path=/', 'b=2, 3', 'c="4; 5"']);
    response.end('cookies');
  },
  trailers: (request, response) => {
    response.setHeader('trailer', 'x-digest, x-count');
    response.write('with ');
    response.addTrailers({ 'x-digest': 'abc', 'x-count': '2' });
    response.end('trailers');
  },
  early: async (request, response, name) => {
    response.writeEarlyHints({ link: '</a.css>; rel=preload; as=style' });
    await word(name);
    response.end('late');
  },
  // One event, and the next when the test says so.
  events: async (request, response, name) => {
    response.setHeader('content-type', 'text/event-stream');
    for (let at = 1; at <= 3; at += 1) {
      response.write(`data: ${at}\n\n`);
      await word(name);
    }
    response.end();
  },
  // Cut when the test says so; with a length, and without.
  'reset-known': async (request, response, name) => {
    response.setHeader('content-length', 100_000);
    response.write('x'.repeat(1_000));
    await word(name);
    cut(request, response);
  },
  'reset-unknown': async (request, response, name) => {
    response.write('x'.repeat(1_000));
    await word(name);
    cut(request, response);
  },
};

async function serve(request, response) {
  const [path, name] = request.url.split('?');
  const serves = special[path.slice(1)];
  try {
    if (serves === undefined) {
      const body = await read(request);
      echoed += 1;
      json(response, seen(request, body));
    } else {
      await serves(request, response, name);
    }
  } catch (error) {
    console.error(`${request.url}: ${error}`);
    if (!response.destroyed) {
      cut(request, response);
    }
  }
}

function expected(request, response) {
  request.isExpected = true;
  response.writeContinue();
  serve(request, response);
}

// A tunnel to port 7 sends back what it is sent (RFC 862), one to port 80 ends at our own HTTP/1.1; another is refused.
function connect(authority, stream, answer) {
  if (authority.endsWith(':7')) {
    answer(200);
    stream.pipe(stream);
  } else if (authority.endsWith(':80')) {
    const server = net.connect(Number(process.argv[2]), '127.0.0.1', () => {
      answer(200);
      stream.pipe(server).pipe(stream);
    });
    server.on('error', () => stream.destroy());
  } else {
    answer(403);
    stream.end();
  }
}

function connectHttp1(request, socket, head) {
  socket.on('error', () => {});
  connect(request.url, socket, (status) => {
    const length = status === 200 ? '' : 'Content-Length: 0\r\n';
    socket.write(`HTTP/1.1 ${status} So\r\n${length}X-Seen: ${request.headers.host}\r\n\r\n`);
    if (head.length > 0) {
      socket.unshift(head);
    }
  });
}

function connectHttp2(request, { stream }) {
  stream.on('error', () => {});
  const authority = request.headers[':authority'];
  connect(authority, stream, (status) => stream.respond({ ':status': status, 'x-seen': authority }));
}

const keys = { cert: fs.readFileSync('cert.pem'), key: fs.readFileSync('key.pem') };
const servers = [
  http.createServer(serve),
  https.createServer(keys, serve),
  http2.createServer(serve),
  http2.createSecureServer({ ...keys, allowHTTP1: false }, serve),
];
process.argv.slice(2).forEach((port, at) => {
  const server = servers[at];
  server.on('checkContinue', expected);
  server.on('connect', at < 2 ? connectHttp1 : connectHttp2);
  server.listen(Number(port), '127.0.0.1', () => console.log(`listens on ${port}`));
});
