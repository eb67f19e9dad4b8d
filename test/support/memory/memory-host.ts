import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { AgentConfig } from '../../../agent/config.js'
import type { Host, HostVolumes } from '../../../agent/daemon/host.js'
import type { DriverDescription } from '../../../agent/drivers/contract.js'
import { makeFetched, type ImagePool } from '../../../agent/images/pool.js'
import { fetchSettings } from '../../../agent/images/image-settings.js'
import { discardFetched, sweepFetched } from '../../../agent/images/fetch.js'
import type { HostFacts } from '../../../agent/network/addresses/host-facts.js'
import type { InterfaceIpv6 } from '../../../agent/host/net/ipv6-addresses.js'
import { parseSubnet } from '../../../agent/network/subnet.js'
import { planFreeBytes } from '../../../agent/storage/room.js'
import { conflict } from '../../../shared/errors.js'
import { MemoryArchives } from './memory-archives.js'
import { MemoryConsoles } from './memory-consoles.js'
import { MemoryBackups, type BackupFaults } from './memory-backups.js'
import { MemoryDriver, type Faults } from './memory-driver.js'
import { MemoryProbe } from './memory-probe.js'
import { MemorySensor } from './memory-sensor.js'
import { MemorySwap } from './memory-swap.js'
import { MemoryPackages } from './memory-packages.js'
import { MemoryNetwork, MemoryWire } from './memory-network.js'

const gib = 1024 ** 3

/** Addresses of every simulated host. The first of each family is its public address. */
export const memoryAddresses = { ipv4: ['192.0.2.10', '192.0.2.11'], ipv6: ['2001:db8::a'] } as const

/** An IPv6 address whose prefix is too small for guests. */
export const ipv6Address: InterfaceIpv6 = {
  interface: 'eth0',
  address: '2001:0db8:0000:0000:0000:0000:0000:000a',
  prefixLength: 128,
  scope: 'global',
  temporary: false,
  deprecated: false,
  tentative: false,
}

export interface MemoryHostOptions {
  readonly cpuCores?: number
  readonly ramTotalMb?: number
  readonly diskTotalGb?: number
}

const pathOf = (uuid: string): string => `/nowhere/${uuid}`
const nextPathOf = (uuid: string): string => `/nowhere/${uuid}.next`
const snapshotPathOf = (uuid: string, id: string): string => `/nowhere/${uuid}/${id}`

/** The parts of a host that are kept when its agent ends: running guests, packet counters, images and capacity. */
export class MemoryHost {
  readonly faults: Faults = {}
  readonly backupFaults: BackupFaults = {}
  /** Size in bytes that every backup reports. */
  backupBytes = 2_000_000
  /** IPv6 addresses of the host's interfaces. */
  ipv6Addresses: readonly InterfaceIpv6[] = [ipv6Address]
  readonly driver = new MemoryDriver(this.faults)
  readonly volumes = new Set<string>()
  /** Text on the disk of each guest. It is the template's id until a test writes another text. */
  readonly contents = new Map<string, string>()
  /** Latest size limit of each disk, in bytes. */
  readonly bounds = new Map<string, number>()
  /** True if the space of deleted volumes has been freed. */
  areFreed = true
  /** Number of times that `areFreed` was read. */
  freedChecks = 0
  /** Content of the disk in each snapshot, by the guest's UUID and the snapshot's id. */
  readonly snapshots = new Map<string, Map<string, string>>()
  /** Content of the volume that is prepared to replace a guest's volume, by the guest's UUID. */
  readonly next = new Map<string, string>()
  /** UUIDs of guests with a rescue system. */
  readonly rescues = new Set<string>()
  readonly wire = new MemoryWire()
  readonly swap = new MemorySwap()
  readonly consoles = new MemoryConsoles()
  readonly archives = new MemoryArchives()
  readonly packages = new MemoryPackages()
  readonly sensor = new MemorySensor()
  readonly probe = new MemoryProbe()
  /** If true, the host also runs virtual machines, which behave like containers. */
  runsMachines = false
  /** The driver's description of virtual machines, if the host runs them. */
  machines: DriverDescription | undefined
  readonly images = new Set(['debian-12'])
  pool: { totalBytes: number; usedBytes: number }
  readonly #size: { readonly cpuCores: number; readonly ramTotalMb: number }

  constructor({ cpuCores = 8, ramTotalMb = 32_768, diskTotalGb = 500 }: MemoryHostOptions = {}) {
    this.#size = { cpuCores, ramTotalMb }
    this.pool = { totalBytes: diskTotalGb * gib, usedBytes: 1_500_000_000 }
  }

  /** Opens the host for the agent, in place of the real machine. */
  open(config: AgentConfig): Host {
    const { network } = config
    const subnet = parseSubnet(network.subnet)
    const facts = factsOf(network.bridge, () => this.ipv6Addresses)
    return {
      ...this.#size,
      readCpus: () => Array.from({ length: this.#size.cpuCores }, (_, cpu) => cpu),
      volumes: this.#openVolumes(),
      transfers: this.#openTransfers(),
      images: this.#openImages(config),
      readCapacity: async () => this.pool,
      drivers: {
        enabled: this.#enabledDrivers(),
        settings: { userIdBase: 1_000_000, pidsMax: 4096, swapRatio: 1 },
        describe: async () => ({
          drivers: new Map([
            ['lxc', await this.driver.describe()],
            ...(this.machines ? ([['kvm', this.machines]] as const) : []),
          ]),
          cgroupVersion: 2,
          lxcfs: true,
        }),
      },
      facts,
      probe: this.probe,
      swap: this.swap,
      consoles: this.consoles,
      archives: this.archives,
      packages: this.packages,
      openNetwork: ({ db }) => new MemoryNetwork({ db, config: network, facts, wire: this.wire }),
      openSensor: () => this.sensor,
      backups: new MemoryBackups(this),
      describeWeaknesses: () => [],
      gateway: subnet.gateway,
      prefixLength: subnet.prefixLength,
      resolvers: ['192.0.2.53'],
      ipv4Total: subnet.last - subnet.first + 1,
    }
  }

  #enabledDrivers(): Host['drivers']['enabled'] {
    const machines = (): MemoryDriver | undefined => (this.runsMachines ? this.driver : undefined)
    return {
      lxc: this.driver,
      get kvm() {
        return machines()
      },
    }
  }

  /** Opens images. Downloads are real, but the content of the files is not checked. */
  #openImages({ images: settings, state_dir }: AgentConfig): ImagePool {
    const directory = join(state_dir, 'downloads')
    mkdirSync(directory, { recursive: true })
    const readFreeBytes = async (): Promise<number> => planFreeBytes(this.pool)
    const parts = { ...fetchSettings(settings), directory, readFreeBytes, pauseMs: 10 }
    return {
      has: async (id) => this.images.has(id),
      readSize: async () => 300_000_000,
      make: async (entry, making) => {
        await this.faults.make?.(entry.id)
        const install = async (): Promise<void> => void this.images.add(entry.id)
        return entry.source.kind === 'built' ? install() : makeFetched(entry, parts, making, install)
      },
      remove: async (id) => {
        await this.faults.removeImage?.(id)
        this.images.delete(id)
      },
      discardFetched: (id) => discardFetched(parts, id),
      sweep: ({ isWanted }) => sweepFetched(parts, isWanted),
    }
  }

  /** Opens transfers of snapshots. The stream of a snapshot is its text in `snapshots`. */
  #openTransfers(): Host['transfers'] {
    const { snapshots } = this
    const received = new Map<string, Buffer[]>()
    const key = (uuid: string, id: string): string => `${uuid} ${id}`
    return {
      send: (uuid, id) => {
        const stream = Readable.from([Buffer.from(snapshots.get(uuid)?.get(id) ?? '')])
        return { stream, ended: Promise.resolve(), kill: () => void stream.destroy() }
      },
      receive: async (uuid, id) => {
        const parts: Buffer[] = []
        received.set(key(uuid, id), parts)
        const stream = new Writable({
          write: (chunk: Buffer, _encoding, done) => {
            parts.push(Buffer.from(chunk))
            done()
          },
        })
        return { stream, ended: finished(stream), kill: () => void stream.destroy() }
      },
      confirm: async (uuid, id) => {
        const content = Buffer.concat(received.get(key(uuid, id)) ?? []).toString()
        if (!snapshots.has(uuid)) snapshots.set(uuid, new Map())
        snapshots.get(uuid)!.set(id, content)
      },
      countReceived: async () => 0,
      endSends: async () => undefined,
      discard: async (uuid) => void snapshots.delete(uuid),
      listComplete: async (uuid, confirmed) =>
        [...(snapshots.get(uuid)?.keys() ?? [])].filter((id) => confirmed.has(id)),
    }
  }

  /** Opens volumes. The content of each disk and snapshot is a text. */
  #openVolumes(): HostVolumes {
    const { faults, contents, snapshots, next } = this
    const { logins } = this.driver
    const copyLogin = (from: string, to: string): void => {
      const login = logins.get(from)
      if (login) logins.set(to, login)
    }
    const ofGuest = (uuid: string): Map<string, string> => {
      if (!snapshots.has(uuid)) snapshots.set(uuid, new Map())
      return snapshots.get(uuid)!
    }
    const prepare: HostVolumes['prepare'] = async (uuid, source) => {
      await faults.prepare?.(uuid)
      const template = 'templateId' in source ? source.templateId : ''
      const content = 'snapshot' in source ? ofGuest(uuid).get(source.snapshot) : template
      if (content === undefined) throw conflict('snapshot_missing', 'no such snapshot')
      next.set(uuid, content)
      if ('snapshot' in source) copyLogin(snapshotPathOf(uuid, source.snapshot), nextPathOf(uuid))
    }
    const exchange: HostVolumes['exchange'] = async (uuid) => {
      await faults.exchange?.(uuid)
      if (!next.has(uuid)) return 'nothing'
      contents.set(uuid, next.get(uuid)!)
      this.volumes.add(uuid)
      next.delete(uuid)
      copyLogin(nextPathOf(uuid), pathOf(uuid))
      return 'exchanged'
    }
    return {
      prepare,
      exchange,
      has: async (uuid) => this.volumes.has(uuid),
      measureNext: async () => 1_000_000,
      discardNext: async (uuid) => next.delete(uuid),
      restore: async (uuid, snapshot, limitBytes) => {
        await prepare(uuid, { snapshot }, limitBytes)
        await exchange(uuid)
      },
      snapshot: async (uuid, id) => {
        await faults.snapshot?.(uuid)
        const made = !ofGuest(uuid).has(id)
        if (made) ofGuest(uuid).set(id, contents.get(uuid) ?? '')
        if (made) copyLogin(pathOf(uuid), snapshotPathOf(uuid, id))
        return { made, sizeBytes: 1_000_000, retainedBytes: 1_000_000 * ofGuest(uuid).size }
      },
      listSnapshots: async (uuid) => [...ofGuest(uuid).keys()],
      deleteSnapshot: async (uuid, id) => {
        await faults.deleteSnapshot?.(uuid)
        return ofGuest(uuid).delete(id)
      },
      snapshotsCount: true,
      expectedRetained: async (uuid) => 1_000_000 * (ofGuest(uuid).size + 1),
      exclusiveBytes: async () => 0,
      areFreed: async () => {
        this.freedChecks++
        return this.areFreed
      },
      snapshotPathOf,
      pathOf,
      nextPathOf,
      rescuePathOf: (uuid) => `/nowhere/${uuid}.rescue`,
      imagePathOf: (id) => `/nowhere/images/${id}`,
      prepareRescue: async (uuid) => {
        await faults.prepareRescue?.(uuid)
        this.rescues.add(uuid)
      },
      discardRescue: async (uuid) => this.rescues.delete(uuid),
      clone: async (uuid, templateId) => {
        await this.faults.clone?.(uuid)
        this.volumes.add(uuid)
        contents.set(uuid, templateId)
      },
      removeDisk: async (uuid) => {
        this.volumes.delete(uuid)
        contents.delete(uuid)
        next.delete(uuid)
      },
      remove: async (uuid) => {
        await this.faults.remove?.(uuid)
        this.volumes.delete(uuid)
        for (const things of [snapshots, contents, next]) things.delete(uuid)
        this.rescues.delete(uuid)
      },
      list: async () => [...this.volumes],
      resize: async (uuid, limitBytes) => {
        await faults.resize?.(uuid, limitBytes)
        this.bounds.set(uuid, limitBytes)
      },
      usage: async () => new Map([...this.volumes].map((uuid) => [uuid, 1_000_000])),
      sweep: async () => undefined,
      ensureLimits: async () => [],
    }
  }
}

function factsOf(bridge: string, listIpv6: HostFacts['listIpv6']): HostFacts {
  return {
    listInterfaces: () => ['lo', 'eth0', 'eth1', 'enp129s0f0np0.7', bridge],
    listIpv4: () => memoryAddresses.ipv4.map((address) => ({ interface: 'eth0', address, prefixLength: 24 })),
    listIpv6,
    listAddresses: (family) => memoryAddresses[family],
    readDefaultRoutes: () => ({ ipv4: { interface: 'eth0', gateway: '192.0.2.1' }, ipv6: undefined }),
    isVirtual: () => false,
    // No other machine uses any of the addresses.
    probe: async (_device, addresses) => new Map(addresses.map((address) => [address, ''])),
  }
}
