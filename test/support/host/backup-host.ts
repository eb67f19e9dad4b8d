import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { pino } from 'pino'
import { AgentConfigSchema, type AgentConfig } from '../../../agent/config.js'
import { Closers } from '../../../agent/daemon/closers.js'
import { openDomain, type Domain } from '../../../agent/daemon/domain.js'
import { openHost, type LinuxHost } from '../../../agent/daemon/host.js'
import { purge } from '../../../agent/daemon/purge.js'
import type { GuestRecord } from '../../../agent/guests/record/record.js'
import type { OperationRecord, StepEvent } from '../../../agent/operations/types.js'
import type { BackupTarget } from '../../../proto/gen/berth/agent/v1/backup.js'
import type { GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { SubmitOperationRequest } from '../../../proto/gen/berth/agent/v1/operation.js'
import { validateConfig } from '../../../shared/config.js'
import { createOrder, createRequest, powerOrder } from './agent-calls.js'
import { agentConfig } from './agent-process.js'
import { lxc, type GuestKind } from '../guests/guest-kinds.js'
import { scratchDirectory } from '../scratch.js'
import { patienceMs, waitFor } from '../wait.js'

type Order = NonNullable<SubmitOperationRequest['order']>
const log = pino({ level: process.env['BTEST_LOG'] ?? 'silent' }, pino.destination(2))

interface Parts {
  readonly config: AgentConfig
  readonly host: LinuxHost
  readonly domain: Domain
  readonly closers: Closers
  readonly wipe: () => void
}

/** The logic of an agent (`Domain`) on a real pool, with real guests. Several instances represent several hosts. */
export class BackupHost {
  /** Called before and after each step of an operation. */
  observer: (event: StepEvent) => void | Promise<void> = () => undefined

  private constructor(private readonly parts: Parts) {}

  get config(): AgentConfig {
    return this.parts.config
  }

  get host(): LinuxHost {
    return this.parts.host
  }

  get domain(): Domain {
    return this.parts.domain
  }

  /** @param tag see `agentConfig` */
  static async open(tag: string, kinds: readonly GuestKind[] = [lxc]): Promise<BackupHost> {
    const { path, wipe } = scratchDirectory(`btest-${tag}`)
    const settings = agentConfig(path, tag, { backups: { patience_seconds: 1 } })
    const config = validateConfig(AgentConfigSchema, settings, 'test')
    makeDirectories(config)
    await purge(config, log) // removes everything that a crashed run left
    makeDirectories(config)
    const closers = new Closers()
    const host = await openHost(config, log, closers)
    for (const kind of kinds) await kind.installImage(config.storage.pool)
    let made: BackupHost | undefined = undefined as BackupHost | undefined
    const observer = (event: StepEvent) => made?.observer(event)
    const domain = await openDomain(host, { config, log, observer }, closers)
    await domain.images.sweep()
    await domain.reconciler.network.compare()
    domain.engine.recover()
    made = new BackupHost({ config, host, domain, closers, wipe })
    return made
  }

  async close(): Promise<void> {
    for (const { uuid } of this.domain.context.store.list()) await this.done(powerOrder('delete', uuid).order!)
    await this.parts.closers.run()
    await purge(this.config, log)
    this.parts.wipe()
  }

  async addGuest(id: number, name: string, spec: Partial<GuestSpec> = {}): Promise<string> {
    await this.done(createOrder(createRequest(id, name, spec)).order!)
    return this.domain.context.store.list().find((guest) => guest.name === name)!.uuid
  }

  /** Submits an operation and waits for its end. @returns the ended operation */
  async carryOut(order: Order, operationId: string = randomUUID()): Promise<OperationRecord> {
    const { operation } = await this.domain.orders.submit({ operationId, requestedBy: 'test', order })
    return this.domain.engine.wait(operation.id)
  }

  async done(order: Order): Promise<OperationRecord> {
    const ended = await this.carryOut(order)
    expect(ended.status, `${ended.errorCode} ${ended.error}`).to.equal('done')
    return ended
  }

  /** Takes a backup. @returns its id */
  async backUp(uuid: string, target: BackupTarget): Promise<string> {
    return (await this.done({ $case: 'backupCreate', value: { uuid, target, description: 'of a test' } })).id
  }

  record(uuid: string): GuestRecord {
    return this.domain.context.store.get(uuid)
  }

  rootOf(uuid: string): string {
    return this.host.volumes.pathOf(uuid)
  }

  /** Finds remains of ended backups on the host. A correct agent leaves no remains. */
  async leftovers(): Promise<string[]> {
    const { state_dir: stateDir, storage } = this.config
    const runs = existsSync(join(stateDir, 'backups')) ? readdirSync(join(stateDir, 'backups')) : []
    const snapshots = await Promise.all(
      this.domain.context.store.list().map(({ uuid }) => this.host.volumes.listSnapshots(uuid)),
    )
    const volumes = readdirSync(join(storage.pool, 'guests')).filter((name) => name.endsWith('.next'))
    return [...runs, ...snapshots.flat(), ...volumes, ...programsBelow(join(stateDir, 'backups'))]
  }

  /** Fails unless all remains of backups soon disappear from the host. */
  async isClean(): Promise<void> {
    let left: string[] = []
    await waitFor(async () => (left = await this.leftovers()).length === 0, {
      what: () => `nothing left, there is ${left.join(' ')}`,
    })
  }

  inside(id: number, command: string): string {
    const tag = this.config.network.interface_prefix
    const attach = ['-P', join(this.config.state_dir, 'lxc'), '-n', `${tag}-${id}`, '--clear-env', '--']
    return execFileSync('lxc-attach', [...attach, '/bin/sh', '-c', command], {
      encoding: 'utf8',
      timeout: patienceMs,
    }).trim()
  }
}

function makeDirectories(config: AgentConfig): void {
  for (const directory of [config.state_dir, config.run_dir]) mkdirSync(directory, { recursive: true })
}

/** Finds processes such as restic and ssh that have a directory in their arguments. */
export function programsBelow(directory: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    const words = /^\d+$/.test(pid) ? readWords(pid) : []
    return words.some((word) => word.includes(`${directory}/`)) ? [words.join(' ')] : []
  })
}

function readWords(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  } catch {
    return [] // the process has ended
  }
}
