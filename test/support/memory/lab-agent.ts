import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { AgentConfigSchema, type AgentConfig } from '../../../agent/config.js'
import { startDaemon, type Daemon } from '../../../agent/daemon/daemon.js'
import type { Domain } from '../../../agent/daemon/domain.js'
import {
  openFirewall,
  unlimitedTraffic,
  type GuestLimits,
  type GuestRecord,
  type PortMapping,
} from '../../../agent/guests/record/record.js'
import { GuestStore, type GuestInsert } from '../../../agent/guests/record/guest-store.js'
import type { GuestUpdate } from '../../../agent/guests/record/rows.js'
import { macOf } from '../../../agent/network/subnet.js'
import type { Logger } from 'pino'
import type { StepObserver } from '../../../agent/operations/types.js'
import type { AgentTls } from '../../../agent/rpc/tls.js'
import { Changes } from '../../../agent/state/changes.js'
import { openDatabase } from '../../../agent/state/database.js'
import { validateConfig } from '../../../shared/config.js'
import { MemoryHost } from './memory-host.js'
import { freePort } from '../ports.js'
import { silentLog } from '../gateway/redis.js'

export interface LabAgentOptions {
  /** Identity directory, as `berth-agent join` creates it. */
  readonly identityDir: string
  /** Directory of the agent's journal, which `destroy` removes. Default: a new directory, in memory if possible. */
  readonly stateDir?: string
  /** Address to listen at, as host:port. By default a free port. */
  readonly listen?: string
  readonly host?: MemoryHost
  /** Maximum number of concurrent operations; 0 lets all operations wait. Default: the value in the configuration. */
  readonly parallel?: number
  /** Settings of agent.yaml in addition to those of the lab. */
  readonly config?: Record<string, unknown>
  /** Log of the agent. By default nothing is logged. */
  readonly log?: Logger
}

/** Fields of a guest that is added without an operation. */
export type LabGuest = Partial<Omit<GuestInsert, 'spec'>> & {
  readonly templateId?: string
  readonly limits?: GuestLimits
  readonly virtualization?: 'lxc' | 'kvm'
}

/**
 * The real agent in this process: its journal, domain, operations and gRPC with mutual TLS, on a simulated host. By
 * default its journal is in memory, so that no test waits for a disk.
 */
export class LabAgent {
  #daemon: Daemon | undefined
  /** Maximum number of concurrent operations. A change takes effect at the next start. */
  parallel: number | undefined
  /** Version of the agent. A change takes effect at the next start. */
  version = '0.0.0-test'
  /** Called at the start and end of every step of operations. */
  observer: StepObserver | undefined
  /** Id of the host's present boot. A change takes effect at the next start. Default: the id of the kernel. */
  bootId: string | undefined
  /** The agent's clock in ms since 1970. */
  now: () => number = Date.now

  private constructor(
    private config: AgentConfig,
    readonly host: MemoryHost,
    private readonly log: Logger,
  ) {}

  static async start(options: LabAgentOptions): Promise<LabAgent> {
    const directory = options.stateDir ?? (await mkdtemp(join(memoryDirectory, 'btest-agent-')))
    await mkdir(directory, { recursive: true })
    await symlink(resolve(options.identityDir), join(directory, 'identity'))
    const config = validateConfig(
      AgentConfigSchema,
      {
        time_zone: 'UTC',
        metrics: { host_interval_seconds: 1 },
        // Tests give guests states that differ from the host. The agent's regular comparison would undo this.
        reconcile_interval_seconds: 3600,
        ...options.config,
        state_dir: directory,
        run_dir: join(directory, 'run'),
        listen: options.listen ?? `127.0.0.1:${await freePort()}`,
      },
      'lab',
    )
    const agent = new LabAgent(config, options.host ?? new MemoryHost(), options.log ?? silentLog)
    agent.parallel = options.parallel
    await agent.resume()
    return agent
  }

  /** @throws while the agent is stopped */
  get domain(): Domain {
    return this.#daemon!.domain
  }

  get stateDir(): string {
    return this.config.state_dir
  }

  get address(): string {
    return this.config.listen
  }

  get tls(): AgentTls {
    return this.#daemon!.tls
  }

  get revision(): number {
    return this.domain.changes.revision
  }

  guests(): readonly GuestRecord[] {
    return this.journal((store) => store.list())
  }

  /** Runs `work` with the guests of the agent's journal, even while the agent is stopped. */
  journal<T>(work: (store: GuestStore) => T): T {
    if (this.#daemon) return work(this.#daemon.domain.context.store)
    const db = openDatabase(join(this.config.state_dir, 'journal.db'))
    try {
      return work(new GuestStore(new Changes(db)))
    } finally {
      db.close()
    }
  }

  update(uuid: string, update: GuestUpdate): void {
    this.journal((store) => store.update(uuid, update))
  }

  #withParallel(): AgentConfig {
    const { parallel = this.config.operations.parallel } = this
    return { ...this.config, operations: { ...this.config.operations, parallel } }
  }

  /** Stops the agent. Its journal and the host stay. */
  async stop(): Promise<void> {
    const daemon = this.#daemon
    this.#daemon = undefined
    await daemon?.close()
  }

  /** Starts the agent again with its journal and its host. @param listen address; default: the previous address */
  async resume(listen = this.config.listen): Promise<void> {
    this.config = { ...this.config, listen }
    this.#daemon = await startDaemon({
      config: this.#withParallel(),
      log: this.log,
      version: this.version,
      now: () => this.now(),
      ...(this.bootId !== undefined && { bootId: this.bootId }),
      observer: (event) => this.observer?.(event),
      openHost: async () => this.host.open(this.config),
    })
  }

  /** Ends the host like a power failure. `resume` boots it. */
  async powerOff(): Promise<void> {
    await this.stop()
    this.host.driver.running.clear()
    this.bootId = randomUUID()
  }

  async restart(listen?: string): Promise<void> {
    await this.stop()
    await this.resume(listen)
  }

  async destroy(): Promise<void> {
    await this.stop()
    await rm(this.config.state_dir, { recursive: true, force: true })
  }

  /** Adds running guests named `sim-<id>`. Their ids begin with `firstId`. */
  seed(count: number, firstId = 1): void {
    this.journal((store) =>
      store.changes.transaction(() => {
        for (let id = firstId; id < firstId + count; id++)
          this.addGuest({ id, uuid: uuidOf(id), name: `sim-${id}`, portMappings: [sshMapping(20_000 + id)] })
      }),
    )
  }

  /** Adds a guest without an operation. By default it is running. */
  addGuest({ templateId = 'debian-12', limits = seeded, ...more }: LabGuest & { id: number }): GuestRecord {
    const { virtualization = 'lxc', ...fields } = more
    const { id } = fields
    if (virtualization === 'kvm') this.host.runsMachines = true
    const ipv4 = `10.64.${id >> 8}.${id & 255}`
    const guest: GuestInsert = {
      uuid: randomUUID(),
      name: `guest-${id}`,
      status: 'running',
      createdAtMs: Date.now(),
      spec: { virtualization, templateId, limits },
      wanted: fields.status === 'stopped' ? 'stopped' : 'running',
      userIdSlot: id,
      ipv4,
      mac: macOf(ipv4),
      login: null,
      hasPassword: true,
      portMappings: fields.portMappings ?? [sshMapping(this.#findPort(20_000 + (id % 40_000)))],
      publicIpv4s: [],
      ipv6Addresses: [],
      firewall: openFirewall,
      traffic: unlimitedTraffic,
      expiresAtMs: 0,
      ...fields,
    }
    this.host.volumes.add(guest.uuid)
    this.host.wire.add(guest.uuid, { rxBytes: 0, txBytes: 0 })
    if (guest.wanted === 'running') this.host.driver.run(guest.uuid)
    return this.journal((store) => {
      store.insert(guest)
      return store.get(guest.uuid)
    })
  }

  /** Finds a free host port. Begins at the port for the guest's id. Another guest may already use this port. */
  #findPort(from: number): number {
    const taken = new Set(this.guests().flatMap(({ portMappings }) => portMappings.flatMap(portsOf)))
    let port = from
    while (taken.has(port)) port++
    return port
  }

  /** Removes a guest without an operation, as if it had been deleted. */
  removeGuest(uuid: string): void {
    this.host.driver.running.delete(uuid)
    this.host.volumes.delete(uuid)
    this.journal((store) => store.remove(uuid))
  }
}

const seeded: GuestLimits = {
  vcpuMilli: 1000,
  ramMb: 512,
  diskGb: 10,
  networkDownMbps: 100,
  networkUpMbps: 100,
  ioReadMbps: 0,
  ioWriteMbps: 0,
}

function portsOf({ hostPort, hostPortEnd }: PortMapping): number[] {
  return Array.from({ length: hostPortEnd - hostPort + 1 }, (_, index) => hostPort + index)
}

function sshMapping(hostPort: number): PortMapping {
  const ports = { hostPort, hostPortEnd: hostPort, containerPort: 22, containerPortEnd: 22 }
  return { ...ports, protocol: 'tcp', hostIp: '', description: 'SSH' }
}

/** Returns the UUID of the seeded guest with this id. */
export function uuidOf(id: number): string {
  return `00000000-0000-4000-8000-${id.toString(16).padStart(12, '0')}`
}

/** Directory for agents' journals. It is in memory if possible, so that the agents need no disk. */
export const memoryDirectory = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
