// A client of Node.js: node client.js h1|h2 URL METHOD CA FIELDS TRAILERS CONTENT, the last three JSON.
// A number as CONTENT is so many bytes. It writes JSON of what it got.
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const https = require('node:https');

const [protocol, address, method, caFile, fieldsText, trailersText, contentText] = process.argv.slice(2);
const url = new URL(address);
const ca = fs.readFileSync(caFile);
const fields = JSON.parse(fieldsText);
const trailers = JSON.parse(trailersText);
const parsed = JSON.parse(contentText);
const content = typeof parsed === 'number' ? Buffer.alloc(parsed, 'x') : parsed;
const hasTrailers = Object.keys(trailers).length > 0;
const got = { status: 0, interim: [], fields: {}, trailers: {}, text: '' };

// The name stands in the request and in SNI alone: it resolves to this machine.
const host = '127.0.0.1';

function end(error) {
  if (error) {
    console.error(error);
    process.exit(1);
  }
  fs.writeSync(1, JSON.stringify(got));
  process.exit(0);
}

function keep(stream) {
  stream.setEncoding('utf8');
  stream.on('data', (part) => { got.text += part; });
  stream.on('error', end);
}

function http1() {
  const headers = { host: url.host, te: 'trailers', connection: 'close, te', ...fields };
  if (hasTrailers) {
    headers.trailer = Object.keys(trailers).join(', ');
    headers['transfer-encoding'] = 'chunked';
  }
  const options = { host, port: url.port, path: url.pathname + url.search, method, headers, ca, servername: url.hostname };
  const request = (url.protocol === 'https:' ? https : http).request(options);
  request.on('information', (interim) => got.interim.push(interim.statusCode));
  request.on('response', (response) => {
    got.status = response.statusCode;
    got.fields = response.headers;
    keep(response);
    response.on('end', () => {
      got.trailers = response.trailers;
      end();
    });
  });
  request.on('error', end);
  if (content !== null) {
    request.write(content);
  }
  if (hasTrailers) {
    request.addTrailers(trailers);
  }
  request.end();
}

function http2s() {
  const session = http2.connect(`${url.protocol}//${host}:${url.port}`, { ca, servername: url.hostname });
  session.on('error', end);
  const head = {
    ':method': method,
    ':path': url.pathname + url.search,
    ':authority': url.host,
    ':scheme': url.protocol.slice(0, -1),
    te: 'trailers',
    ...fields,
  };
  const hasContent = content !== null || hasTrailers;
  const stream = session.request(head, { endStream: !hasContent, waitForTrailers: hasTrailers });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  stream.on('headers', (interim) => got.interim.push(interim[':status']));
  stream.on('response', (response) => {
    got.status = response[':status'];
    got.fields = response;
  });
  stream.on('trailers', (received) => { got.trailers = received; });
  keep(stream);
  stream.on('end', () => end());
  if (hasContent) {
    stream.end(content ?? '');
  }
}

// By CONNECT, URL's host and port: CONTENT is sent when the tunnel is there, and comes back.
function converse(stream) {
  keep(stream);
  stream.on('data', () => {
    if (got.text.length === content.length) {
      stream.end();
    }
  });
  stream.on('end', () => end());
  stream.write(content);
}

function connect1() {
  // The port of the tunnel stands in FIELDS: it is not where the gateway listens.
  const path = `${url.hostname}:${fields.port}`;
  const options = { host, port: url.port, path, method, headers: { host: path }, ca, servername: url.hostname };
  const request = (url.protocol === 'https:' ? https : http).request(options);
  request.on('connect', (response, socket) => {
    got.status = response.statusCode;
    got.fields = response.headers;
    if (got.status === 200) {
      converse(socket);
    } else {
      end();
    }
  });
  request.on('error', end);
  request.end();
}

function connect2() {
  const session = http2.connect(`${url.protocol}//${host}:${url.port}`, { ca, servername: url.hostname });
  session.on('error', end);
  const stream = session.request({ ':method': method, ':authority': `${url.hostname}:${fields.port}` });
  stream.on('error', end);
  stream.on('response', (response) => {
    got.status = response[':status'];
    got.fields = response;
    if (got.status === 200) {
      converse(stream);
    } else {
      end();
    }
  });
}

if (method === 'CONNECT' && protocol === 'h2') {
  connect2();
} else if (method === 'CONNECT') {
  connect1();
} else if (protocol === 'h2') {
  http2s();
} else {
  http1();
}
