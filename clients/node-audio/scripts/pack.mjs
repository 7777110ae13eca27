// Packs what npm installs: @steppe/audio, and a package for each platform whose addon was built, which
// it names as optional dependencies. `node scripts/pack.mjs FOLDER`.
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Platforms, by what `triple()` calls them. */
const PLATFORMS = {
  'linux-x64-gnu': { os: ['linux'], cpu: ['x64'], libc: ['glibc'] },
  'linux-arm64-gnu': { os: ['linux'], cpu: ['arm64'], libc: ['glibc'] },
  'linux-x64-musl': { os: ['linux'], cpu: ['x64'], libc: ['musl'] },
  'win32-x64-msvc': { os: ['win32'], cpu: ['x64'] },
  'darwin-x64': { os: ['darwin'], cpu: ['x64'] },
  'darwin-arm64': { os: ['darwin'], cpu: ['arm64'] },
};

const root = fileURLToPath(new URL('..', import.meta.url));
const out = resolve(process.argv[2] ?? 'packed');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const { version, license, engines } = manifest;

function pack(folder) {
  const args = ['pack', '--ignore-scripts', '--pack-destination', out];
  return execFileSync('npm', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}

function stage(name, contents) {
  const folder = join(out, 'stage', name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify(contents, null, 2));
  return folder;
}

mkdirSync(out, { recursive: true });
for (const [name, platform] of Object.entries(PLATFORMS)) {
  const addon = join(root, 'native', `steppe-audio.${name}.node`);
  if (!existsSync(addon)) continue;
  const folder = stage(name, {
    name: `@steppe/audio-${name}`,
    version,
    license,
    engines,
    description: `The native addon of @steppe/audio for ${name}`,
    main: 'steppe-audio.node',
    files: ['steppe-audio.node'],
    ...platform,
  });
  copyFileSync(addon, join(folder, 'steppe-audio.node'));
  console.log(join(out, pack(folder)));
}

const { devDependencies, scripts, ...published } = manifest;
const optionalDependencies = Object.fromEntries(Object.keys(PLATFORMS).map((name) => [`@steppe/audio-${name}`, version]));
const folder = stage('main', { ...published, optionalDependencies });
cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true });
for (const name of ['README.md', 'docs']) cpSync(join(root, name), join(folder, name), { recursive: true });
console.log(join(out, pack(folder)));
rmSync(join(out, 'stage'), { recursive: true });
