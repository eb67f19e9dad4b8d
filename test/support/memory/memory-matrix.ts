import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { AgentConfigSchema } from '../../../agent/config.js'
import { Closers } from '../../../agent/daemon/closers.js'
import { openDomain, type Domain } from '../../../agent/daemon/domain.js'
import type { GuestRecord } from '../../../agent/guests/record/record.js'
import { validateConfig } from '../../../shared/config.js'
import {
  bringTo,
  definitionOf,
  guestUuid,
  newPassword,
  submit,
  takeSnapshot,
  type GuestAction,
  type GuestBefore,
  type Made,
} from '../guests/matrix-orders.js'
import { MemoryHost } from './memory-host.js'
import type { MatrixSubject } from '../operations/operation-matrix.js'
import { silentLog } from '../gateway/redis.js'

const guest = { templates: ['debian-12', 'debian-13'], spec: {} } as const

/** Prepares one operation on a guest, with an agent's journal and a simulated host of its own. */
export async function prepareInMemory(action: GuestAction, before: GuestBefore): Promise<MatrixSubject> {
  const directory = mkdtempSync('/dev/shm/btest-memory-matrix-') // in memory: syncs of the journal to a disk are slow
  const closers = new Closers()
  const host = new MemoryHost()
  for (const template of guest.templates) host.images.add(template)
  const domain = await openIn(directory, host, closers)
  const made: Made = { domain, guest }
  await bringTo(made, before)
  if (action === 'snapshotRestore') {
    await takeSnapshot(made)
    host.contents.set(guestUuid, 'changed')
  }
  return {
    changes: domain.changes,
    definition: definitionOf(made, action),
    submit: (engine) => submit(made, engine, action),
    inventory: () => inventoryOf(host, domain),
    destroy: async () => {
      await closers.run()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function openIn(directory: string, host: MemoryHost, closers: Closers): Promise<Domain> {
  const given = { state_dir: directory, run_dir: join(directory, 'run'), time_zone: 'UTC' }
  const config = validateConfig(AgentConfigSchema, given, 'test')
  const domain = await openDomain(host.open(config), { config, log: silentLog }, closers)
  await domain.images.sweep()
  domain.engine.recover()
  return domain
}

/** Lets the reconciler compare the host with the journal once, as an agent does repeatedly. @returns the inventory */
async function inventoryOf(host: MemoryHost, domain: Domain): Promise<unknown> {
  await domain.reconciler.pass()
  const { driver, volumes, snapshots, next, rescues, wire } = host
  return {
    host: {
      volumes: [...volumes],
      next: [...next],
      rescues: [...rescues],
      snapshots: [...snapshots].flatMap(([uuid, byId]) => [...byId.keys()].map((id) => `${uuid}/${id}`)),
      running: [...driver.running.keys()].map((uuid) => [uuid, driver.booted.get(uuid)]),
      configured: [...driver.configured],
      rules: [...wire.guests.keys()],
    },
    guests: domain.context.store.list().map((record) => rowOf(host, domain, record)),
  }
}

/** Describes a guest by its row in the agent's journal, the text on its disk and its password. */
function rowOf(host: MemoryHost, { context }: Domain, record: GuestRecord): object {
  const { uuid, status, wanted, spec, boot } = record
  const { password = '' } = context.logins.open(record)
  return {
    uuid,
    status,
    wanted,
    boot,
    journaled: spec.templateId,
    template: host.contents.get(uuid),
    password: password === newPassword ? 'new' : 'old',
    passwordHolds: host.driver.logins.get(context.volumes.pathOf(uuid))?.password === password,
  }
}
