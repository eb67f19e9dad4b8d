import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'

const cache = '/var/cache/berth-test'
const packages = [
  'systemd-sysv',
  'dbus',
  'libpam-systemd',
  'openssh-server',
  'iproute2',
  'iputils-ping',
  'procps',
  'busybox',
]

/**
 * A minimal Debian 12 with systemd, made once for all test runs of this machine from Debian's mirror.
 * Read only: copy it.
 */
export function debianRoot(): string {
  const path = `${cache}/debian-12-systemd`
  if (existsSync(path)) return path
  const fresh = `${path}.${process.pid}`
  mkdirSync(cache, { recursive: true })
  try {
    const options = ['--mode=root', '--variant=minbase', `--include=${packages.join(',')}`]
    execFileSync('mmdebstrap', [...options, 'bookworm', fresh], { stdio: ['ignore', 'ignore', 'pipe'] })
    for (const file of ['hostname', 'resolv.conf', 'hosts', 'machine-id'])
      rmSync(`${fresh}/etc/${file}`, { force: true })
    renameSync(fresh, path)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
  return path
}
