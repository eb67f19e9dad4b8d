import { openArchiveReader } from '../imports/archive-reader.js'
import type { ArchiveReader } from '../imports/contract.js'
import { existsSync, mkdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { availableParallelism, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { invalidField } from '../../shared/errors.js'
import type { AbuseSensor } from '../abuse/contract.js'
import { HostSensor } from '../abuse/host-sensor.js'
import type { BackupRepositories } from '../backups/contract.js'
import { ResticRepositories } from '../backups/repositories.js'
import type { AgentConfig } from '../config.js'
import { ConsoleProcess, type ConsoleConnections } from '../console/console-process.js'
import { Drivers, ensureHostLimits } from '../drivers/drivers.js'
import { readCgroupLayout } from '../host/process/cgroup.js'
import { hostProbe, type GuestProbe } from '../host/guest/guest-probe.js'
import { readOnlineCpus } from '../host/process/online-cpus.js'
import { readInterfaces } from '../host/net/interfaces.js'
import { NetlinkWatch } from '../host/net/netlink-watch.js'
import type { GuestTransfers, GuestVolumes } from '../guests/context.js'
import { PoolImages, type ImagePool } from '../images/pool.js'
import { fetchSettings, planFreeUserIds } from '../images/image-settings.js'
import { HostAddressBook, type AddressBookOptions } from '../network/address-book.js'
import { kernelFacts, type HostFacts } from '../network/addresses/host-facts.js'
import type { Network } from '../network/contract.js'
import { HostNetwork } from '../network/host-network.js'
import { createRules } from '../network/nft/rules.js'
import { createShaper } from '../network/shaping/shaping.js'
import { chooseResolvers } from '../network/resolvers.js'
import { parseSubnet } from '../network/subnet.js'
import { openPool, readCapacity, type Pool, type PoolCapacity } from '../storage/pool.js'
import { planFreeBytes } from '../storage/room.js'
import type { HostSwap } from '../swap/contract.js'
import type { AgentPackages } from '../upgrade/contract.js'
import { InstalledPackages } from '../upgrade/installed-packages.js'
import { SwapFiles } from '../swap/swap-files.js'
import { DiskTransfers } from '../storage/disk-transfers.js'
import { Trash } from '../storage/trash.js'
import { Volumes } from '../storage/volumes.js'
import type { Closers } from './closers.js'
import { recordKernelSettings } from './kernel-record.js'

const mib = 1024 * 1024
const gib = 1024 * mib

/** The parts of the agent that the network needs: the journal, and a function that sets addresses inside guests. */
export type NetworkParts = Pick<AddressBookOptions, 'db' | 'assignInside'>

/** The methods of `Volumes` (agent/storage/volumes.ts) that the agent's logic (`Domain`) needs. */
export type HostVolumes = GuestVolumes & Pick<Volumes, 'sweep' | 'ensureLimits'>

/** A host that is prepared for guests. No part of it uses the journal. */
export interface Host {
  readonly volumes: HostVolumes
  readonly transfers: GuestTransfers
  readonly images: ImagePool
  /** Reads archives that a gateway sends. */
  readonly archives: ArchiveReader
  readonly backups: BackupRepositories
  readonly drivers: Pick<Drivers, 'enabled' | 'settings' | 'describe'>
  readonly facts: HostFacts
  readonly probe: GuestProbe
  readonly swap: HostSwap
  readonly consoles: ConsoleConnections
  readonly packages: AgentPackages
  readonly cpuCores: number
  /** Returns the numbers of the processors that guests are allowed to use now, in ascending order. */
  readCpus(): readonly number[]
  readonly ramTotalMb: number
  /** Reads the capacity of the storage pool. Starts no process. */
  readCapacity(): Promise<PoolCapacity>
  /** Returns warnings for the operator about host settings that weaken the isolation of guests. */
  describeWeaknesses(): readonly string[]
  readonly openNetwork: (parts: NetworkParts) => Network
  readonly openSensor: () => AbuseSensor
  readonly gateway: string
  readonly prefixLength: number
  /** Number of private IPv4 addresses for guests. */
  readonly ipv4Total: number
  readonly resolvers: readonly string[]
}

/** A real Linux host, which has a trash for deleted volumes. */
export interface LinuxHost extends Host {
  readonly trash: Trash
}

export async function openHost(config: AgentConfig, log: Logger, closers: Closers): Promise<LinuxHost> {
  await recordKernelSettings(config.state_dir, config.network.bridge)
  const raised = ensureHostLimits()
  if (raised.length > 0)
    log.info(
      { limits: raised },
      'these kernel limits of the host were too low and are raised, if the kernel permits it',
    )
  const pool = await openPool(config.storage)
  const trash = new Trash(pool, log)
  const volumes = new Volumes(pool, trash)
  const drivers = await Drivers.open(config, log)
  closers.add(() => drivers.close())
  const weaknesses = drivers.ensureSeparation(config.storage)
  const watch = new NetlinkWatch(config.network, (reason) =>
    log.warn({ reason }, 'the process that watches the network ended and is started again'),
  )
  closers.add(() => watch.close())
  const resolvers = await readResolvers(config)
  const countInternal = config.traffic.count_internal
  const subnet = parseSubnet(config.network.subnet)
  const cpusetPath = readCgroupLayout().controllers.get('cpuset')
  return {
    trash,
    volumes,
    transfers: new DiskTransfers(pool, trash, volumes),
    drivers,
    images: openImages(config, pool, trash),
    archives: openArchiveReader(config),
    backups: new ResticRepositories({
      directory: join(config.state_dir, 'backups'),
      parallel: config.backups.parallel,
      patienceMs: config.backups.patience_seconds * 1000,
      memoryBytes: config.backups.memory_mb * 1024 ** 2,
      log,
    }),
    readCapacity: () => readCapacity(pool, config.storage),
    facts: kernelFacts,
    probe: hostProbe,
    swap: new SwapFiles(config),
    consoles: new ConsoleProcess(config.run_dir),
    packages: new InstalledPackages(config.run_dir),
    cpuCores: availableParallelism(),
    readCpus: () => readOnlineCpus(cpusetPath),
    ramTotalMb: Math.floor(totalmem() / mib),
    describeWeaknesses: () => [...weaknesses, ...drivers.describeOutdated()],
    openNetwork: (parts) =>
      new HostNetwork(
        createRules(config.network, { countInternal, watch, resolvers }),
        new HostAddressBook({ config: config.network, log, ...parts }),
        createShaper(config.network.interface_prefix, watch),
      ),
    openSensor: () =>
      new HostSensor(config, (reason) =>
        log.warn({ reason }, 'the process that receives packet samples ended and is started again'),
      ),
    gateway: subnet.gateway,
    prefixLength: subnet.prefixLength,
    ipv4Total: subnet.last - subnet.first + 1,
    resolvers,
  }
}

function openImages(config: AgentConfig, pool: Pool, trash: Trash): PoolImages {
  const { images, lxc, storage } = config
  const uploads = images.uploads || join(config.state_dir, 'uploads')
  mkdirSync(uploads, { recursive: true, mode: 0o700 })
  const readFreeBytes = async (): Promise<number> => planFreeBytes(await readCapacity(pool, storage))
  return new PoolImages({
    pool,
    trash,
    mirror: images.debian_mirror,
    hostIdBase: planFreeUserIds(lxc),
    readBound: async () => Math.min(images.max_image_gb * gib, await readFreeBytes()),
    fetch: { ...fetchSettings(images), directory: pool.downloads, readFreeBytes, uploads },
  })
}

/**
 * Checks that only guests' interfaces have the interface prefix. The nft rules drop packets of interfaces with this
 * prefix if the packets bypass the bridge.
 * @throws {BerthError} `invalid_field` if the bridge or a hardware interface has such a name
 */
export function checkInterfacePrefix({ interface_prefix: prefix, bridge }: AgentConfig['network']): void {
  const pattern = new RegExp(`^${prefix}\\d`)
  const others = [...readInterfaces()].filter((name) => existsSync(`/sys/class/net/${name}/device`))
  const taken = [bridge, ...others].find((name) => pattern.test(name))
  if (taken === undefined) return
  const message = `network.interface_prefix: ${taken} exists and would be mistaken for the interface of a guest`
  throw invalidField('network.interface_prefix', message)
}

async function readResolvers(config: AgentConfig): Promise<readonly string[]> {
  if (config.network.resolvers.length > 0) return config.network.resolvers
  // systemd-resolved puts its loopback address into the first file, and its upstream servers into the second one.
  const paths = ['/etc/resolv.conf', '/run/systemd/resolve/resolv.conf']
  return chooseResolvers(await Promise.all(paths.map((path) => readFile(path, 'utf8').catch(() => ''))))
}
