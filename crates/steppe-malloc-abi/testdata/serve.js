// A server whose answers take work: JSON, buffers of many sizes, compression in the thread pool.
const http = require('node:http');
const zlib = require('node:zlib');

const kept = [];

http
  .createServer((request, response) => {
    const rows = Array.from({ length: 200 }, (_, id) => ({ id, name: `row ${id}`, at: [id, id / 3] }));
    const text = Buffer.from(JSON.stringify(rows));
    kept.push(Buffer.alloc((kept.length * 977) % 60000, 1));
    if (kept.length > 500) kept.splice(0, 250);
    zlib.gzip(text, (error, packed) => {
      if (error) throw error;
      zlib.gunzip(packed, (failure, unpacked) => {
        if (failure || !unpacked.equals(text)) throw failure ?? new Error('not the same text');
        response.end(unpacked);
      });
    });
  })
  .listen(Number(process.argv[2]), '127.0.0.1');
