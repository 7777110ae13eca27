// Prints a token for an hour, signed by the key of a file: `node token.mjs agent.key`.
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';

const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const expires = Math.floor(Date.now() / 1e3) + 3_600;
const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub: 'agent', exp: expires })}`;
const key = readFileSync(process.argv[2], 'utf8').trimEnd();
console.log(`${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`);
