import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { pino } from 'pino'
import type { Machine } from '../../../agent/drivers/machine.js'
import { createLxcDriver, type LxcDriver } from '../../../agent/drivers/lxc/driver.js'
import { unpackTestImage } from '../guests/debian-image.js'
import { startLxcfs } from './lxcfs.js'
import { scratchDirectory } from '../scratch.js'
import { waitFor } from '../wait.js'
import { sh } from '../sh.js'

const mib = 1024 ** 2
/** A pool, bridge and driver of its own for a test. Debian is the only template. */
export interface LxcHost {
  readonly path: string
  readonly driver: LxcDriver
  readonly bridge: string
  /** Creates another driver on the same state, as after a restart of the agent. */
  reopen(): Promise<LxcDriver>
  machine(change?: Partial<Machine>): Machine
  /** Creates the guest's volume with Debian on it. */
  clone(machine: Machine): void
  /** Deletes the guest's volume, if it exists. */
  removeVolume(machine: Machine): void
  /** Runs a command inside a running guest. @returns its output */
  inside(machine: Machine, ...command: string[]): string
  close(): Promise<void>
}

export interface LxcHostOptions {
  /** Name of the scratch directory and the bridge. It is unique for every test file. */
  readonly name: string
  /** Prefix of guests, interfaces and cgroups: two to four letters, unique for every test file. */
  readonly prefix: string
  readonly subnet: string
  readonly poolGb?: number
  /** If true, the host uses a separate lxcfs. */
  readonly lxcfs?: boolean
}

export async function openLxcHost(options: LxcHostOptions): Promise<LxcHost> {
  const { prefix, subnet } = options
  const bridge = `btest-${prefix}`
  await killGuests(prefix, `/var/tmp/${options.name}/state/lxc`)
  const scratch = scratchDirectory(options.name)
  await makePool(scratch.path, options.poolGb ?? 8)
  spawnSync('ip', ['link', 'delete', bridge])
  sh('ip', 'link', 'add', bridge, 'type', 'bridge')
  sh('ip', 'address', 'add', `${subnet}.1/24`, 'dev', bridge)
  sh('ip', 'link', 'set', bridge, 'up')
  const pool = `${scratch.path}/pool`
  const stopLxcfs = options.lxcfs ? await startLxcfs(`${scratch.path}/lxcfs`) : undefined
  const drivers: LxcDriver[] = []
  const reopen = async (): Promise<LxcDriver> => {
    const driver = await createLxcDriver({
      stateDir: `${scratch.path}/state`,
      runDir: `${scratch.path}/run`,
      namePrefix: prefix,
      stopTimeoutMs: 10_000,
      lxcfsDir: `${scratch.path}/lxcfs`,
      log: pino({ level: 'warn' }),
    })
    drivers.push(driver)
    return driver
  }
  const driver = await reopen()
  const container = (machine: Machine): string[] => ['-P', `${scratch.path}/state/lxc`, '-n', `${prefix}-${machine.id}`]
  let nextId = 1
  return {
    path: scratch.path,
    driver,
    bridge,
    reopen,
    machine: (change) => testMachine(nextId++, { prefix, bridge, subnet, pool }, change),
    clone: ({ volume }) => {
      if (!existsSync(volume)) sh('btrfs', 'subvolume', 'snapshot', `${pool}/debian-12`, volume)
    },
    removeVolume: ({ volume }) => {
      if (existsSync(volume)) sh('btrfs', 'subvolume', 'delete', volume)
    },
    inside: (machine, ...command) => sh('lxc-attach', ...container(machine), '--clear-env', '--', ...command).trim(),
    close: async () => {
      for (const open of drivers) open.close()
      await killGuests(prefix, `${scratch.path}/state/lxc`)
      spawnSync('ip', ['link', 'delete', bridge])
      await stopLxcfs?.()
      scratch.wipe()
    },
  }
}

function testMachine(
  id: number,
  host: { prefix: string; bridge: string; subnet: string; pool: string },
  change: Partial<Machine> = {},
): Machine {
  const uuid = randomUUID()
  return {
    uuid,
    volume: `${host.pool}/guests/${change.uuid ?? uuid}`,
    id,
    hostname: `guest-${id}`,
    limits: {
      vcpuMilli: 1000,
      memoryBytes: 512 * mib,
      swapBytes: 256 * mib,
      diskBytes: 2048 * mib,
      ioReadBytesPerSec: 0,
      ioWriteBytesPerSec: 0,
    },
    isolation: { userIdBase: 2_000_000_000 + id * 65_536, pidsMax: 512 },
    nic: {
      device: `${host.prefix}${id}`,
      bridge: host.bridge,
      mac: `02:bb:00:00:${(id >> 8).toString(16).padStart(2, '0')}:${(id & 255).toString(16).padStart(2, '0')}`,
      ipv4: `${host.subnet}.${id + 10}`,
      prefixLength: 24,
      gateway: `${host.subnet}.1`,
      ipv6Addresses: [],
      gateway6: 'fe80::1',
    },
    resolvers: ['192.0.2.53', '2001:db8::53'],
    ...change,
  }
}

async function makePool(path: string, sizeGb: number): Promise<void> {
  sh('truncate', '-s', `${sizeGb}G`, `${path}/pool.img`)
  sh('mkfs.btrfs', '-q', `${path}/pool.img`)
  mkdirSync(`${path}/pool`)
  sh('mount', '-o', 'loop', `${path}/pool.img`, `${path}/pool`)
  mkdirSync(`${path}/pool/guests`, { mode: 0o700 }) // the product sets the same mode
  sh('btrfs', 'subvolume', 'create', `${path}/pool/debian-12`)
  await unpackTestImage(`${path}/pool/debian-12`)
}

/** Kills all guests with this prefix, even those of earlier runs. Uses lxc's tools instead of the driver's code. */
async function killGuests(prefix: string, lxcPath: string): Promise<void> {
  if (existsSync(lxcPath))
    for (const name of readdirSync(lxcPath)) spawnSync('lxc-stop', ['-k', '-P', lxcPath, '-n', name])
  const what = `groups of ${prefix} to be empty`
  await waitFor(() => removeGroups(prefix), { what })
}

/** Removes empty cgroups. @returns false if some are left, because an ending monitor keeps its cgroup for a moment */
function removeGroups(prefix: string): boolean {
  const groups = readdirSync('/sys/fs/cgroup')
    .map((name) => `/sys/fs/cgroup/${name}/lxc.pivot.${prefix}`)
    .concat(`/sys/fs/cgroup/lxc.pivot.${prefix}`)
    .filter((path) => existsSync(path))
  for (const group of groups) spawnSync('rmdir', [`${group}/lxc.pivot`, group])
  return !groups.some((path) => existsSync(path))
}
