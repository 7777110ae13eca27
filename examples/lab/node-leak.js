// A server with a planted leak: it remembers every request. LEAK=0 is its healthy twin.
//
// SIGUSR2 forces a collection (node --expose-gc), so that the lab measures live memory without
// garbage.
'use strict';

const { createServer } = require('node:http');

const leaks = process.env.LEAK !== '0';
const remembered = [];

function remember(request) {
  remembered.push({ number: remembered.length, headers: JSON.stringify(request.headers).repeat(4) });
}

const server = createServer((request, response) => {
  // Garbage, as in every server: only memory that survives a collection counts.
  const answer = Buffer.from(JSON.stringify({ path: request.url, at: Date.now() }));
  if (leaks) {
    remember(request);
  }
  response.setHeader('content-type', 'application/json');
  response.end(answer);
});

process.on('SIGUSR2', () => globalThis.gc?.());
process.on('SIGTERM', () => process.exit(0));
server.listen(Number(process.argv[2] ?? 18001), '127.0.0.1');
