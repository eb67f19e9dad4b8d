import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const cache = '/var/cache/berth-test'
/** Capabilities of newuidmap and ping lie in extended attributes. */
const tarOptions = ['--numeric-owner', '--xattrs', '--xattrs-include=*', '--zstd']

/**
 * Unpacks a Debian 12 with systemd and all that scripts/up would install on it. Built from Debian's mirror the
 * first time and when that list changes: one to three minutes; then from a cache: one or two seconds.
 */
export function unpackSystemdRoot(target: string): void {
  const archive = ensureArchive()
  mkdirSync(target, { recursive: true })
  execFileSync('tar', [...tarOptions, '-xpf', archive, '-C', target, '--exclude=./dev/*'])
  // mmdebstrap leaves this machine's names in it. Without an id of its own systemd would take it for a first boot.
  for (const file of ['hostname', 'resolv.conf']) rmSync(join(target, 'etc', file), { force: true })
  writeFileSync(join(target, 'etc/hosts'), '127.0.0.1 localhost\n::1 localhost\n')
  writeFileSync(join(target, 'etc/machine-id'), `${randomBytes(16).toString('hex')}\n`)
}

function ensureArchive(): string {
  const packages = ['systemd-sysv', 'dbus', ...productPackages()]
  const recipe = ['--mode=root', '--variant=minbase', `--include=${packages.join(',')}`, 'bookworm']
  const hash = createHash('sha256').update(recipe.join(' ')).digest('hex').slice(0, 16)
  const archive = join(cache, `systemd-root-${hash}.tar.zst`)
  if (!existsSync(archive)) buildArchive(recipe, archive)
  return archive
}

function buildArchive(recipe: readonly string[], archive: string): void {
  mkdirSync(cache, { recursive: true, mode: 0o700 })
  const fresh = archive.replace('.tar.zst', `.${randomBytes(4).toString('hex')}.tar.zst`)
  // In a namespace whose first process dies with unshare(1): ended early, nothing of it runs on.
  const wrapper = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--', 'mmdebstrap']
  try {
    execFileSync('unshare', [...wrapper, ...recipe, fresh], { stdio: ['ignore', 'ignore', 'pipe'] })
    renameSync(fresh, archive)
  } finally {
    rmSync(fresh, { force: true })
  }
  for (const name of readdirSync(cache))
    if (name.startsWith('systemd-root-') && join(cache, name) !== archive) rmSync(join(cache, name))
}

/** From scripts/up, so that both name the same. */
function productPackages(): string[] {
  const list = /^product_packages=\(\n([^)]*)\)/m.exec(readFileSync('scripts/up', 'utf8'))?.[1] ?? ''
  const names = list.split(/\s+/).filter(Boolean)
  if (!names.includes('lxc')) throw new Error('scripts/up has no product_packages that can be read')
  return names
}
