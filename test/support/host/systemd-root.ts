import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const cache = '/var/cache/berth-test'
const weekMs = 7 * 24 * 3600 * 1000

/**
 * Mounts a Debian 12 with systemd and all packages that scripts/up installs: the one from
 * test/setup/fresh-machine.test.ts, or else one built from Debian's mirror, in one to three minutes. Changes are
 * written to a directory next to the target.
 */
export function mountSystemdRoot(target: string): void {
  const kept = keptRoot()
  if (!existsSync(kept)) buildRoot(kept)
  const [upper, work] = [`${target}.changes`, `${target}.work`]
  for (const directory of [target, upper, work]) mkdirSync(directory, { recursive: true })
  const options = `lowerdir=${kept},upperdir=${upper},workdir=${work}`
  execFileSync('mount', ['-t', 'overlay', '-o', options, 'btest', target])
  // It contains this machine's names. Without its own id systemd would assume a first boot.
  for (const file of ['hostname', 'resolv.conf']) rmSync(join(target, 'etc', file), { force: true })
  writeFileSync(join(target, 'etc/hosts'), '127.0.0.1 localhost\n::1 localhost\n')
  writeFileSync(join(target, 'etc/machine-id'), `${randomBytes(16).toString('hex')}\n`)
}

/** Stores the root of a machine that has ended, unless there is one from this week. */
export function keepSystemdRoot(root: string): void {
  const kept = statSync(keptRoot(), { throwIfNoEntry: false })
  if (kept && Date.now() - kept.ctimeMs < weekMs) return
  mkdirSync(cache, { recursive: true, mode: 0o700 })
  const fresh = `${keptRoot()}.${randomBytes(4).toString('hex')}`
  for (const name of readdirSync(cache))
    if (name.startsWith('systemd-root-')) rmSync(join(cache, name), { recursive: true })
  execFileSync('cp', ['-a', root, fresh])
  renameSync(fresh, keptRoot())
}

/** The packages of scripts/up, read from there so that both lists are equal. */
export function productPackages(): string[] {
  const list = /^product_packages=\(\n([^)]*)\)/m.exec(readFileSync('scripts/up', 'utf8'))?.[1] ?? ''
  const names = list.split(/\s+/).filter(Boolean)
  if (!names.includes('lxc')) throw new Error('scripts/up has no product_packages that can be read')
  return names
}

function keptRoot(): string {
  const hash = createHash('sha256').update(productPackages().join(' ')).digest('hex').slice(0, 16)
  return join(cache, `systemd-root-${hash}`)
}

/** @param more packages in addition to those of scripts/up */
export function buildRoot(kept: string, more: readonly string[] = []): void {
  mkdirSync(cache, { recursive: true, mode: 0o700 })
  const fresh = `${kept}.${randomBytes(4).toString('hex')}`
  const packages = ['systemd-sysv', 'dbus', ...more, ...productPackages()]
  const recipe = ['--mode=root', '--variant=minbase', `--include=${packages.join(',')}`, 'bookworm', fresh]
  // In a namespace whose first process dies with unshare(1): if it is killed, none of its processes continues.
  const wrapper = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--', 'mmdebstrap']
  try {
    execFileSync('unshare', [...wrapper, ...recipe], { stdio: ['ignore', 'ignore', 'pipe'] })
    renameSync(fresh, kept)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}
