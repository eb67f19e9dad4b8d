import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSubvolume } from '../../../agent/host/disk/btrfs.js'
import { unpackTestImage } from '../guests/debian-image.js'
import { checkout, copyCheckout, disabledUnits, makePool, npmDirectory, packagesMark } from './systemd-machine.js'
import { sh } from '../sh.js'
import { buildRoot, productPackages } from './systemd-root.js'

/** Packages that a machine needs in addition to those of a container. */
const packages = ['linux-image-cloud-amd64', 'initramfs-tools', 'udev', 'kmod', 'libpam-systemd', 'openssh-server']
const cache = '/var/cache/berth-test'

/** Configuration for QEMU's user network. In V2Machine, this network has no route to the outside. */
const network = `[Match]
Name=e*
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
`

/** Units that would work at night or download something. */
const maskedUnits = [
  'apt-daily.timer',
  'apt-daily-upgrade.timer',
  'e2scrub_all.timer',
  'fstrim.timer',
  'dpkg-db-backup.timer',
  'systemd-networkd-wait-online.service',
]

export interface V2Root {
  readonly kernel: string
  readonly initrd: string
}

/**
 * Fills a directory with a newly installed Debian 12 and the packages of scripts/up. Adds a checkout with npm packages,
 * and a pool with the image of debian-12.
 * @param scratch an empty directory for temporary files
 */
export async function fillV2Root(root: string, scratch: string, publicKey: string): Promise<V2Root> {
  copyRoot(root)
  configure(root, publicKey)
  copyProduct(root)
  await makePool(join(root, 'var/lib/berth/pool.img'), join(scratch, 'pool'), installImage)
  copyArchives(root)
  const boot = join(root, 'boot')
  const find = (prefix: string): string =>
    join(boot, readdirSync(boot).find((name) => name.startsWith(prefix)) ?? fail(`no ${prefix}* in ${boot}`))
  return { kernel: find('vmlinuz-'), initrd: find('initrd.img-') }
}

function fail(why: string): never {
  throw new Error(why)
}

/** Copies the system from a cache. If the cache lacks it, builds it from Debian's mirror in some minutes. */
function copyRoot(root: string): void {
  const hash = createHash('sha256')
    .update([...packages, ...productPackages()].join(' '))
    .digest('hex')
  const kept = join(cache, `v2-root-${hash.slice(0, 16)}`)
  if (!existsSync(kept)) buildRoot(kept, { more: packages })
  execFileSync('cp', ['-a', kept, root])
  writeFileSync(join(root, 'etc/machine-id'), `${randomBytes(16).toString('hex')}\n`)
}

function configure(root: string, publicKey: string): void {
  const write = (path: string, text: string, mode = 0o644): void => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text, { mode })
  }
  write('etc/hostname', 'v2-host\n')
  write('etc/fstab', '/dev/vda / ext4 rw,errors=remount-ro 0 1\n')
  write('etc/systemd/network/wire.network', network)
  write('root/.ssh/authorized_keys', publicKey, 0o600)
  const systemctl = (...words: string[]): unknown =>
    execFileSync('systemctl', [`--root=${root}`, '-q', ...words], { stdio: 'ignore' })
  systemctl('mask', ...maskedUnits)
  systemctl('disable', ...disabledUnits)
  systemctl('enable', 'systemd-networkd.service', 'ssh.service')
}

/** Copies the product and the tests, so that the machine has a built clone with its npm packages. */
function copyProduct(root: string): void {
  const target = join(root, checkout)
  copyCheckout(root)
  for (const part of ['test', '.mocharc.json', 'node_modules']) execFileSync('cp', ['-a', part, join(target, part)])
  writeFileSync(join(target, 'node_modules/.berth-installed'), packagesMark(root))
  copyFileSync(process.execPath, join(root, 'usr/bin/node'))
  execFileSync('chmod', ['755', join(root, 'usr/bin/node')])
  mkdirSync(join(root, 'usr/lib/node_modules'), { recursive: true })
  cpSync(npmDirectory(), join(root, 'usr/lib/node_modules/npm'), { recursive: true })
}

/** Copies cached archives of systems. Without them, tests in the machine would build the systems from a mirror. */
function copyArchives(root: string): void {
  const archives = readdirSync(cache).filter((name) => name.endsWith('.tar.zst'))
  mkdirSync(join(root, cache), { recursive: true, mode: 0o700 })
  for (const name of archives) copyFileSync(join(cache, name), join(root, cache, name))
}

async function installImage(pool: string): Promise<void> {
  const path = join(pool, 'images/debian-12')
  await createSubvolume(path)
  await unpackTestImage(path)
  sh('chmod', '755', path)
  sh('btrfs', 'property', 'set', path, 'ro', 'true')
}
