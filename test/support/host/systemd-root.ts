import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const cache = '/var/cache/berth-test'
const weekMs = 7 * 24 * 3600 * 1000

export type Release = 'bookworm' | 'trixie' | 'noble'

/**
 * Mounts a root file system with systemd. The root of Debian 12 has all packages that scripts/up installs; it may come
 * from test/setup/fresh-machine.test.ts. The root of another release has the dependencies of berth-agent. A missing
 * root is built from the distribution's mirror in one to three minutes. Changes are written to a directory next to the
 * target.
 */
export function mountSystemdRoot(target: string, release: Release = 'bookworm'): void {
  const kept = keptRoot(release)
  if (!existsSync(kept)) buildRoot(kept, { release })
  const [upper, work] = [`${target}.changes`, `${target}.work`]
  for (const directory of [target, upper, work]) mkdirSync(directory, { recursive: true })
  const options = `lowerdir=${kept},upperdir=${upper},workdir=${work}`
  execFileSync('mount', ['-t', 'overlay', '-o', options, 'btest', target])
  // Removes the host name and the DNS settings of the builder. Without a machine id, systemd would assume a first boot.
  for (const file of ['hostname', 'resolv.conf']) rmSync(join(target, 'etc', file), { force: true })
  writeFileSync(join(target, 'etc/hosts'), '127.0.0.1 localhost\n::1 localhost\n')
  writeFileSync(join(target, 'etc/machine-id'), `${randomBytes(16).toString('hex')}\n`)
}

/** Caches the root of an ended machine for later machines, unless the cached root is less than a week old. */
export function keepSystemdRoot(root: string): void {
  const target = keptRoot('bookworm')
  const kept = statSync(target, { throwIfNoEntry: false })
  if (kept && Date.now() - kept.ctimeMs < weekMs) return
  mkdirSync(cache, { recursive: true, mode: 0o700 })
  const fresh = `${target}.${randomBytes(4).toString('hex')}`
  for (const name of readdirSync(cache))
    if (name.startsWith('systemd-root-bookworm-')) rmSync(join(cache, name), { recursive: true })
  execFileSync('cp', ['-a', root, fresh])
  renameSync(fresh, target)
}

/** Returns the packages of scripts/up. They are read from scripts/up, so that there is only one list. */
export function productPackages(): string[] {
  const list = /^product_packages=\(\n([^)]*)\)/m.exec(readFileSync('scripts/up', 'utf8'))?.[1] ?? ''
  const names = list.split(/\s+/).filter(Boolean)
  if (!names.includes('lxc')) throw new Error('scripts/up has no product_packages that can be read')
  return names
}

/** Returns the packages on which berth-agent depends, except Berth's own packages. */
function agentPackages(): string[] {
  const control = readFileSync('packaging/berth/debian/control', 'utf8')
  const list = /^Package: berth-agent\n(?:.+\n)*?Depends: ((?:.+\n(?: .+\n)*))/m.exec(control)?.[1] ?? ''
  const names = list.split(/[\s,]+/).filter((word) => /^[a-z][a-z0-9+-]+$/.test(word) && !word.startsWith('berth'))
  if (!names.includes('lxc')) throw new Error('packaging/berth/debian/control has no dependencies that can be read')
  return names
}

const packagesOf = (release: Release): string[] => (release === 'bookworm' ? productPackages() : agentPackages())

function keptRoot(release: Release): string {
  const hash = createHash('sha256').update(packagesOf(release).join(' ')).digest('hex').slice(0, 16)
  return join(cache, `systemd-root-${release}-${hash}`)
}

const archive = 'http://archive.ubuntu.com/ubuntu'
const keyring = {
  file: 'ubuntu-keyring_2023.11.28.1_all.deb',
  sha256: '36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8',
}

/** Returns the file with the keys that sign Ubuntu's archive. Debian 12 has no package with these keys. */
function ubuntuKeyring(): string {
  const directory = join(cache, 'ubuntu-keyring')
  const file = join(cache, keyring.file)
  execFileSync('curl', ['-fsS', '-o', file, `${archive}/pool/main/u/ubuntu-keyring/${keyring.file}`])
  execFileSync('sha256sum', ['-c', '--status'], { input: `${keyring.sha256}  ${file}\n` })
  execFileSync('dpkg-deb', ['-x', file, directory])
  return join(directory, 'usr/share/keyrings/ubuntu-archive-keyring.gpg')
}

/** Returns arguments that name package sources to mmdebstrap; [] if the default sources are right for the release. */
function sourcesOf(release: Release): string[] {
  return release === 'noble' ? [`deb [signed-by=${ubuntuKeyring()}] ${archive} noble main universe`] : []
}

/** @param more packages in addition to those of the release */
export function buildRoot(
  kept: string,
  { release = 'bookworm', more = [] }: { release?: Release; more?: readonly string[] } = {},
): void {
  mkdirSync(cache, { recursive: true, mode: 0o700 })
  const fresh = `${kept}.${randomBytes(4).toString('hex')}`
  const packages = ['systemd-sysv', 'dbus', ...more, ...packagesOf(release)]
  const recipe = [
    '--mode=root',
    '--variant=minbase',
    `--include=${packages.join(',')}`,
    release,
    fresh,
    ...sourcesOf(release),
  ]
  // unshare(1) ends all processes of this namespace when it is killed.
  const wrapper = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--', 'mmdebstrap']
  try {
    execFileSync('unshare', [...wrapper, ...recipe], { stdio: ['ignore', 'ignore', 'pipe'] })
    renameSync(fresh, kept)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}
