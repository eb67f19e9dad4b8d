import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { poolLabel } from '../../../agent/storage/quota.js'
import { installBusyboxImage } from '../guests/busybox-image.js'
import { memoryDirectory, scratchDirectory } from '../scratch.js'
import { mountSystemdRoot, type Release } from './systemd-root.js'
import { waitFor } from '../wait.js'

/** Path of the checkout inside the machine. */
export const checkout = '/srv/berth'

/** The parts of a checkout that scripts/up reads. node_modules is mounted instead of copied. */
const checkoutParts = [
  'agent',
  'cli',
  'client',
  'gateway',
  'panel',
  'shared',
  'proto',
  'scripts',
  'systemd',
  'dist',
  'README.md',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'buf.yaml',
  'buf.gen.yaml',
]

/** Units that need a terminal, work at night, or change the kernel. The machine shares its kernel with the host. */
const maskedUnits = [
  'systemd-sysctl.service',
  'systemd-udevd.service',
  'console-getty.service',
  'getty@tty1.service',
  'apt-daily.timer',
  'apt-daily-upgrade.timer',
  'e2scrub_all.timer',
  'fstrim.timer',
  'dpkg-db-backup.timer',
]

/** Units that scripts/up disables when it has installed the packages itself. */
export const disabledUnits = ['redis-server.service', 'lxc-net.service', 'lxc.service']

const environment = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export interface MachineOptions {
  /** Code name of the distribution. By default Debian 12. */
  readonly release?: Release
  /** If false, the machine has neither a checkout nor Node.js and npm. Default: true. */
  readonly hasCheckout?: boolean
  /** A bridge of this host, and the machine's address on it with prefix length. Default: no network. */
  readonly network?: { readonly bridge: string; readonly address: string }
}

/**
 * A container with systemd, for a host without systemd. It has all rights of root, its own cgroups and loop devices,
 * and a network without a route to the outside. Node, npm and the npm packages are the host's, read-only.
 */
export class SystemdMachine {
  readonly #lxc: readonly string[]
  /** The machine's file system, as a directory of this host. */
  readonly root: string
  readonly #log: string

  private constructor(
    directory: string,
    name: string,
    readonly destroy: () => void,
  ) {
    this.root = join(directory, 'root')
    this.#lxc = ['-P', join(directory, 'lxc'), '-n', name]
    this.#log = join(directory, 'lxc.log')
  }

  /** @param name unique for every test file, begins with btest-; remains of an earlier run are removed first */
  static async create(name: string, options: MachineOptions = {}): Promise<SystemdMachine> {
    const scratch = scratchDirectory(name)
    try {
      const directory = memoryDirectory(scratch.path)
      await fill(directory, name, options)
      return new SystemdMachine(directory, name, scratch.wipe)
    } catch (error) {
      scratch.wipe()
      throw error
    }
  }

  async start(): Promise<void> {
    execFileSync('lxc-start', [...this.#lxc, '-o', this.#log, '-l', 'WARN'])
    await this.waitUntilBooted()
  }

  /** Kills all processes of the machine simultaneously, like a power failure. Only the page cache survives. */
  cutPower(): void {
    execFileSync('lxc-stop', [...this.#lxc, '-k'])
  }

  /** Restarts the machine with `systemctl reboot`. No process of the machine survives this. */
  async reboot(): Promise<void> {
    // lxc keeps the container during a reboot. A different first process shows that the container has rebooted.
    const before = this.#initPid()
    this.run('systemctl', 'reboot')
    await waitFor(() => this.#initPid() !== before, {
      intervalMs: 200,
      what: 'systemd to end',
    })
    await this.waitUntilBooted()
  }

  async waitUntilBooted(): Promise<void> {
    const state = (): string => this.try('systemctl', 'is-system-running').output.trim()
    await waitFor(() => /^(running|degraded)$/.test(state()), {
      intervalMs: 200,
      what: state,
    })
  }

  /** Runs a program inside the machine. @returns its standard output @throws with all output if it fails */
  run(...command: readonly string[]): string {
    const { code, output, error } = this.try(...command)
    if (code !== 0) throw new Error(`${command.join(' ')}: exit code ${code}: ${output}${error}`)
    return output
  }

  try(...command: readonly string[]): { code: number | null; output: string; error: string } {
    const options = { encoding: 'utf8', timeout: 900_000 } as const
    const { status, stdout, stderr } = spawnSync('lxc-attach', this.attachArguments(...command), options)
    return { code: status, output: stdout, error: stderr }
  }

  /** Returns arguments for lxc-attach(1) to run a program inside the machine. */
  attachArguments(...command: readonly string[]): string[] {
    return [...this.#lxc, '--clear-env', '--set-var', environment, '--', ...command]
  }

  #initPid(): string {
    const { stdout } = spawnSync('lxc-info', [...this.#lxc, '-p', '-H'], { encoding: 'utf8' })
    return stdout.trim()
  }
}

async function fill(directory: string, name: string, options: MachineOptions): Promise<void> {
  const root = join(directory, 'root')
  mountSystemdRoot(root, options.release)
  if (options.hasCheckout ?? true) {
    copyCheckout(root)
    markPackages(root, directory)
  }
  prepareUnits(root)
  await makePool(join(root, 'var/lib/berth/pool.img'), join(directory, 'pool'), (pool) =>
    installBusyboxImage(pool, 'debian-12'),
  )
  mkdirSync(join(directory, 'lxc', name), { recursive: true })
  writeFileSync(join(directory, 'devices'), deviceHook, { mode: 0o755 })
  writeFileSync(join(directory, 'lxc', name, 'config'), planConfig(directory, name, options).join('\n'))
}

function planNetwork(network: MachineOptions['network']): string[] {
  if (!network) return ['lxc.net.0.type = empty']
  const { bridge, address } = network
  return [
    'lxc.net.0.type = veth',
    `lxc.net.0.link = ${bridge}`,
    'lxc.net.0.name = eth0',
    `lxc.net.0.ipv4.address = ${address}`,
    'lxc.net.0.flags = up',
  ]
}

/** Returns mounts of this host's Node.js, npm and npm packages. Files can be added to node_modules (an overlay). */
function checkoutMounts(directory: string): string[] {
  const bind = (from: string, to: string, kind: 'file' | 'dir'): string =>
    `lxc.mount.entry = ${from} ${to} none bind,ro,create=${kind} 0 0`
  const overlay = `lowerdir=${realpathSync('node_modules')},upperdir=${directory}/packages,workdir=${directory}/work`
  return [
    bind(process.execPath, 'usr/bin/node', 'file'),
    bind(npmDirectory(), 'usr/lib/node_modules/npm', 'dir'),
    // The overlay makes node_modules writable for one file: the mark that the required versions are installed.
    `lxc.mount.entry = overlay ${checkout.slice(1)}/node_modules overlay ${overlay},create=dir 0 0`,
  ]
}

function planConfig(directory: string, name: string, { hasCheckout = true, network }: MachineOptions): string[] {
  return [
    `lxc.uts.name = ${name}`,
    `lxc.rootfs.path = dir:${directory}/root`,
    ...planNetwork(network),
    'lxc.tty.max = 0',
    'lxc.pty.max = 1024',
    `lxc.console.logfile = ${directory}/console.log`,
    `lxc.hook.autodev = ${directory}/devices`,
    'lxc.mount.auto = proc:rw sys:rw cgroup:rw:force',
    // Mounts of proc and sysfs that no other mount covers. The kernel requires them before it lets guests in user
    // namespaces mount proc and sysfs (/usr/share/lxc/config/nesting.conf).
    'lxc.mount.entry = proc dev/.lxc/proc proc create=dir 0 0',
    'lxc.mount.entry = sysfs dev/.lxc/sys sysfs create=dir 0 0',
    ...(hasCheckout ? checkoutMounts(directory) : []),
    '',
  ]
}

export function npmDirectory(): string {
  return dirname(dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())))
}

/** Creates loop devices for the pool, and devices that lxcfs needs. The numbers are from the kernel's devices.txt. */
const deviceHook = `#!/bin/sh
set -e
cd "$LXC_ROOTFS_MOUNT/dev"
mknod -m 660 loop-control c 10 237
mknod -m 666 fuse c 10 229
i=0
while [ $i -lt 256 ]; do mknod -m 660 loop$i b 7 $i; i=$((i + 1)); done
`

/** Copies the checkout without npm packages. */
export function copyCheckout(root: string): void {
  const target = join(root, checkout)
  for (const part of checkoutParts.filter((path) => existsSync(path)))
    cpSync(part, join(target, part), { recursive: true })
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/bin/npm'))
}

/** Returns the text that marks npm packages as installed. Without it, the machine would try to download them. */
export function packagesMark(root: string): string {
  const wanted = '. scripts/lib/common.sh && npm_packages_wanted'
  return execFileSync('bash', ['-c', wanted], { cwd: join(root, checkout), encoding: 'utf8' })
}

function markPackages(root: string, directory: string): void {
  for (const part of ['packages', 'work']) mkdirSync(join(directory, part))
  writeFileSync(join(directory, 'packages/.berth-installed'), packagesMark(root))
}

function prepareUnits(root: string): void {
  const units = join(root, 'etc/systemd/system')
  execFileSync('systemctl', [`--root=${root}`, '-q', 'mask', ...maskedUnits], { stdio: 'ignore' })
  execFileSync('systemctl', [`--root=${root}`, '-q', 'disable', ...disabledUnits], {
    stdio: 'ignore',
  })
  // Removes the condition of Debian's lxcfs unit, which would prevent its start in a container.
  mkdirSync(join(units, 'lxcfs.service.d'))
  writeFileSync(join(units, 'lxcfs.service.d/in-container.conf'), '[Unit]\nConditionVirtualization=\n')
}

/** Creates a pool that already contains an image, so that the agent does not build one from Debian's mirror. */
export async function makePool(
  file: string,
  mountPoint: string,
  installImage: (pool: string) => Promise<void>,
): Promise<void> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  mkdirSync(mountPoint)
  execFileSync('truncate', ['-s', '16G', file])
  execFileSync('mkfs.btrfs', ['-q', '-f', '-L', poolLabel, file], { stdio: 'ignore' })
  execFileSync('mount', ['-o', 'loop', file, mountPoint])
  try {
    mkdirSync(join(mountPoint, 'images'), { mode: 0o700 })
    await installImage(mountPoint)
  } finally {
    execFileSync('umount', [mountPoint])
  }
}
