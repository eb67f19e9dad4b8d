import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { AgentConfigSchema, type AgentConfig } from '../../../agent/config.js'
import { Closers } from '../../../agent/daemon/closers.js'
import { openDomain, type Domain } from '../../../agent/daemon/domain.js'
import { openHost, type LinuxHost } from '../../../agent/daemon/host.js'
import { purge } from '../../../agent/daemon/purge.js'
import type { GuestRecord } from '../../../agent/guests/record/record.js'
import type { OperationEngine } from '../../../agent/operations/engine.js'
import type { OperationRecord } from '../../../agent/operations/types.js'
import { validateConfig } from '../../../shared/config.js'
import { agentConfig } from '../host/agent-process.js'
import { finishDeletions, readInventory, type Instance, type Inventory } from '../host/inventory.js'
import { readExpected } from '../host/journal-inventory.js'
import type { MatrixGuest } from './matrix-guests.js'
import {
  bringTo,
  definitionOf,
  guestUuid,
  newPassword,
  order,
  submit,
  takeSnapshot,
  type GuestAction,
  type GuestBefore,
  type Made,
} from './matrix-orders.js'
import type { MatrixSubject } from '../operations/operation-matrix.js'
import { scratchDirectory } from '../scratch.js'
import { waitFor } from '../wait.js'

const log = pino({ level: process.env['BTEST_LOG'] ?? 'silent' }, pino.destination(2))

export interface GuestSubject extends MatrixSubject {
  /** The agent's operation engine, which can run all kinds of operations. */
  readonly engine: OperationEngine
  order(action: GuestAction, operationId: string): Promise<OperationRecord>
}

interface Parts {
  readonly guest: MatrixGuest
  readonly config: AgentConfig
  readonly host: LinuxHost
  readonly instance: Instance
  readonly closers: Closers
  readonly wipe: () => void
}

/** A host for the tests of all cases. Each case has an agent's journal of its own. */
export class GuestMatrixHost {
  private constructor(private readonly parts: Parts) {}

  /** @param tag see `agentConfig` */
  static async open(tag: string, guest: MatrixGuest): Promise<GuestMatrixHost> {
    const { path, wipe } = scratchDirectory(`btest-${tag}-matrix`)
    const config = validateConfig(AgentConfigSchema, agentConfig(path, tag), 'test')
    const makeDirectories = (): void => {
      for (const directory of [config.state_dir, config.run_dir]) mkdirSync(directory, { recursive: true })
    }
    makeDirectories()
    await purge(config, log) // removes interfaces and rules that a crashed run left
    makeDirectories()
    const closers = new Closers()
    const host = await openHost(config, log, closers)
    for (const id of guest.templates) await guest.installImage(config.storage.pool, id)
    const { table, interface_prefix: interfacePrefix } = config.network
    const instance = {
      stateDir: config.state_dir,
      runDir: config.run_dir,
      pool: config.storage.pool,
      table,
      interfacePrefix,
    }
    return new GuestMatrixHost({ guest, config, host, instance, closers, wipe })
  }

  async close(): Promise<void> {
    await this.parts.closers.run()
    await purge(this.parts.config, log)
    this.parts.wipe()
  }

  async prepare(action: GuestAction, before: GuestBefore): Promise<GuestSubject> {
    const closers = new Closers()
    const domain = await openDomain(this.parts.host, { config: this.parts.config, log }, closers)
    await domain.images.sweep()
    await domain.reconciler.network.compare()
    domain.engine.recover()
    const made = { domain, guest: this.parts.guest }
    await bringTo(made, before)
    if (action === 'snapshotRestore') await this.#changeSince(made)
    return {
      changes: domain.changes,
      definition: definitionOf(made, action),
      submit: (engine) => submit(made, engine, action),
      engine: domain.engine,
      order: (action, operationId) => submit(made, domain.engine, action, { operationId }),
      inventory: () => this.#inventory(domain),
      destroy: () => this.#destroy(domain, closers),
    }
  }

  /** Takes a snapshot and then changes the disk. */
  async #changeSince(made: Made): Promise<void> {
    await takeSnapshot(made)
    this.parts.guest.writeTemplate(made.domain.context.volumes.pathOf(guestUuid), 'changed')
  }

  /** Lets the reconciler compare the host with the journal once, as an agent does repeatedly. @returns the inventory */
  async #inventory(domain: Domain): Promise<unknown> {
    await domain.reconciler.pass()
    await this.parts.host.trash.settled()
    await finishDeletions(this.parts.instance)
    await this.parts.host.trash.sweep() // older kernels leave the quota groups of deleted volumes
    await waitFor(() => this.#isConsistent()).catch(() => undefined)
    const host = readInventory(this.parts.instance)
    expect(host, 'the host compared with the journal').to.deep.equal(readExpected(this.parts.instance))
    const guests = domain.context.store.list()
    return {
      host: withoutAddresses(host, guests),
      guests: guests.map((guest) => rowOf(domain, guest, this.parts.guest)),
    }
  }

  #isConsistent(): boolean {
    return JSON.stringify(readInventory(this.parts.instance)) === JSON.stringify(readExpected(this.parts.instance))
  }

  /** Removes everything that a failed case left, because it would disturb the next case. */
  async #destroy(domain: Domain, closers: Closers): Promise<void> {
    if (domain.context.store.find(guestUuid)) await order({ domain, guest: this.parts.guest }, 'delete')
    await closers.run()
    for (const name of ['journal.db', 'journal.db-wal', 'journal.db-shm', 'secret.key'])
      rmSync(join(this.parts.config.state_dir, name), { force: true })
  }
}

/** Describes a guest: its record, the template on its disk, and whether the disk has the password of the record. */
function rowOf({ context }: Domain, record: GuestRecord, guest: MatrixGuest): object {
  const { uuid, status, wanted, spec, boot } = record
  const volume = context.volumes.pathOf(uuid)
  const { password = '' } = context.logins.open(record)
  return {
    uuid,
    status,
    wanted,
    boot,
    journaled: spec.templateId,
    template: guest.readTemplate(volume),
    password: password === newPassword ? 'new' : 'old',
    passwordHolds: isOfPassword(guest.readPasswordHash(volume), password),
    snapshots: readdirSync(join(volume, '../../snapshots')),
  }
}

/** True if the hash is of this password. The hash is computed without the agent's code. */
function isOfPassword(hash: string, password: string): boolean {
  const salt = hash.split('$')[2] ?? ''
  return execFileSync('openssl', ['passwd', '-6', '-salt', salt, password], { encoding: 'utf8' }).trim() === hash
}

/** Replaces addresses, because they are chosen at random. Equal states then have equal inventories. */
function withoutAddresses(inventory: Inventory, guests: readonly GuestRecord[]): unknown {
  let text = JSON.stringify(inventory)
  for (const { ipv4, mac } of guests) text = text.replaceAll(ipv4, 'ADDRESS').replaceAll(mac, 'MAC')
  return JSON.parse(text)
}
