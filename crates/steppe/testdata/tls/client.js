// A client of Node.js: node client.js PORT CA
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const https = require('node:https');

const [port, ca] = process.argv.slice(2);
const content = Buffer.from(Array.from({ length: 1_000_000 }, (_, at) => at % 251));

function exchange(agent, path, headers) {
  return new Promise((resolve, reject) => {
    const options = { agent, host: 'localhost', port, path, method: 'POST', headers };
    const request = https.request(options, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () => {
        assert.strictEqual(answer.statusCode, 200);
        assert.ok(Buffer.concat(parts).equals(content));
        resolve(request.reusedSocket);
      });
    });
    request.on('error', reject);
    request.write(content.subarray(0, 300_000));
    request.end(content.subarray(300_000));
  });
}

async function main() {
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    const agent = new https.Agent({
      keepAlive: true, ca: fs.readFileSync(ca), minVersion: version, maxVersion: version,
    });
    const reused = [];
    for (const path of ['/', '/chunked']) {
      reused.push(await exchange(agent, path, { 'content-length': content.length }));
      reused.push(await exchange(agent, path, {}));
    }
    assert.deepStrictEqual(reused, [false, true, true, true]);
    agent.destroy();
  }
  const unknown = exchange(new https.Agent(), '/', {});
  await assert.rejects(unknown, /unable to verify|self.signed/);
  console.log('all is well');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
