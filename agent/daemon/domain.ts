import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import type { Logger } from 'pino'
import { readOrCreateKey } from '../../shared/sealing.js'
import { targetVault } from '../backups/vault.js'
import type { AgentConfig } from '../config.js'
import { driverOf, type GuestContext } from '../guests/context.js'
import { guestSubject } from '../guests/operations/guest-order.js'
import { guestKinds } from '../guests/operations/kinds.js'
import type { HostCapacity } from '../guests/capacity.js'
import { loginVault } from '../guests/login-vault.js'
import { PortHolds } from '../guests/port-holds.js'
import { machineOf } from '../guests/record.js'
import { Reconciler } from '../guests/reconciler.js'
import { GuestStore } from '../guests/store.js'
import { Turns } from '../guests/turns.js'
import { readBootId } from '../host/proc.js'
import { imageBuildDefinition } from '../images/definition.js'
import { Images } from '../images/images.js'
import { GuestSampler } from '../metrics/guest-sampler.js'
import { Routing } from '../network/addresses/routing.js'
import { deviceName } from '../network/allocation.js'
import type { Network } from '../network/contract.js'
import { Orders } from '../operations/orders.js'
import { OperationEngine } from '../operations/engine.js'
import type { OperationDefinition, StepObserver } from '../operations/types.js'
import { Changes } from '../state/changes.js'
import { openDatabase } from '../state/database.js'
import { TrafficKeeper } from '../traffic/keeper.js'
import type { Closers } from './closers.js'
import type { Host } from './host.js'

/** The journal and everything that acts on it. */
export interface Domain {
  readonly changes: Changes
  readonly context: GuestContext
  readonly engine: OperationEngine
  readonly orders: Orders
  readonly capacity: HostCapacity
  readonly policy: TrafficKeeper
  readonly routing: Routing
  readonly images: Images
  readonly reconciler: Reconciler
  readonly sampler: GuestSampler
}

export interface DomainOptions {
  config: AgentConfig
  log: Logger
  observer?: StepObserver
}

export async function openDomain(host: Host, options: DomainOptions, closers: Closers): Promise<Domain> {
  const { config, log } = options
  const db = openDatabase(join(config.state_dir, 'journal.db'))
  closers.add(() => db.close())
  const changes = new Changes(db)
  const images = new Images({ pool: host.images, changes, log })
  const store = new GuestStore(changes)
  const key = await openSecret(join(config.state_dir, 'secret.key'), store)
  const network = host.openNetwork({
    db,
    assignInside: async ({ uuid }, gone) => {
      const record = store.find(uuid)
      if (record) await driverOf(context, record).assignAddresses(context.machineOf(record), gone)
    },
  })
  closers.add(() => network.close())
  const context = createContext({ host, options, store, images, key, network })
  const capacity = {
    cpuCores: host.cpuCores,
    ramTotalMb: host.ramTotalMb,
    readDisk: () => host.readCapacity(),
  }
  const kinds = guestKinds(context, capacity)
  const engine = new OperationEngine({
    changes,
    definitions: [...Object.values<OperationDefinition<unknown>>(kinds), imageBuildDefinition(images)],
    parallel: config.operations.parallel,
    log,
    ...(options.observer ? { observer: options.observer } : {}),
  })
  closers.add(() => engine.close())
  const orders = new Orders(engine, kinds)
  const sampler = new GuestSampler(context)
  closers.add(() => sampler.close())
  const reconciler = new Reconciler({
    context,
    orders,
    engine,
    onObserved: (observed) => sampler.observed(observed),
    repairStorage: (limitBytes) => {
      // A guest may have filled its disk with subvolumes, each a deletion of its own: nothing waits for them.
      void host.volumes.sweep().catch((err: unknown) => log.warn({ err }, 'sweep the trash'))
      return host.volumes.ensureLimits(limitBytes)
    },
  })
  closers.add(() => reconciler.close())
  const policy = new TrafficKeeper({
    context,
    busy: (uuid) => engine.busy(guestSubject(uuid)),
    stop: (uuid) => stopNow(orders, uuid),
    bootId: readBootId(),
  })
  closers.add(() => policy.close())
  const applyAddresses = (): Promise<void> => reconciler.ensureNetwork(['rules', 'addresses'])
  const routing = new Routing({ changes, config, book: network, applyAddresses, log, facts: host.facts })
  return { changes, context, engine, orders, capacity, policy, routing, images, reconciler, sampler }
}

function stopNow(orders: Orders, uuid: string): void {
  const order = { $case: 'stop', value: { uuid, force: false } } as const
  orders.submitNow({ operationId: randomUUID(), requestedBy: 'system', order })
}

/** A new key would be of no use to logins sealed with the old one, and hide that it is lost. */
async function openSecret(path: string, store: GuestStore): Promise<Buffer> {
  if (store.hasLogins() && !existsSync(path))
    throw new BerthError(
      'internal',
      'secret_missing',
      `${path} is missing: restore it with the journal it belongs to`,
    )
  return readOrCreateKey(path)
}

interface ContextParts {
  host: Host
  options: DomainOptions
  store: GuestStore
  images: Images
  key: Buffer
  network: Network
}

function createContext(parts: ContextParts): GuestContext {
  const { host, store, images, network, key } = parts
  const { config, log } = parts.options
  const deviceOf = (id: number): string => deviceName(config.network.interface_prefix, id)
  const { gateway, prefixLength, resolvers, volumes } = host
  const { enabled: drivers, settings } = host.drivers
  return {
    config,
    store,
    drivers,
    volumes,
    backups: host.backups,
    userIdSlots: settings.userIdSlots,
    network,
    facts: host.facts,
    turns: new Turns(),
    portHolds: new PortHolds(),
    images: {
      knows: (id) => images.find(id) !== undefined,
      has: (id) => images.find(id)?.available ?? false,
      ensure: (id, report, signal) => images.ensure(id, report, signal),
    },
    log,
    machineOf: (record) =>
      machineOf(record, {
        ...{ settings, bridge: config.network.bridge, gateway, prefixLength, resolvers, deviceOf },
        volumeOf: (uuid) => volumes.pathOf(uuid),
      }),
    deviceOf,
    ...loginVault(key),
    ...targetVault(key),
    now: Date.now,
  }
}
