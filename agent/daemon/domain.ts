import type { GuestRecord } from '../guests/record/record.js'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { AlertStore } from '../abuse/alert-store.js'
import { AbuseWatch } from '../abuse/abuse-watch.js'
import { TargetVault } from '../backups/vault.js'
import type { AgentConfig } from '../config.js'
import type { BackupContext } from '../guests/context.js'
import { openArrivals, type Arrivals } from '../guests/moves/arrivals.js'
import { LiveSender } from '../guests/moves/live-sender.js'
import { GuestMachines } from '../guests/machines.js'
import { openStartGate, type StartGate } from '../guests/ownership/start-gate.js'
import { volumeLimitOf } from '../guests/snapshots/volume-bound.js'
import { guestSubject } from '../guests/operations/guest-order.js'
import { guestKinds } from '../guests/operations/kinds.js'
import { scheduledBackupDefinition, scheduledBackups } from '../guests/operations/backup-scheduled.js'
import { scheduledSnapshotDefinition, scheduledSnapshots } from '../guests/operations/snapshot-scheduled.js'
import type { HostCapacity } from '../guests/resources/capacity.js'
import { LoginVault } from '../guests/login-vault.js'
import { HostPorts } from '../guests/resources/host-ports.js'
import { ProcessorPlaces } from '../guests/processors/places.js'
import { Reconciler } from '../guests/reconcile/reconciler.js'
import { DueDeletions } from '../guests/deletion/due-deletions.js'
import { ScheduledRuns } from '../guests/schedule/scheduler.js'
import { GuestStore } from '../guests/record/guest-store.js'
import { StandbyCopies } from '../guests/standby/standby-copies.js'
import { StandbySender } from '../guests/standby/standby-sender.js'
import { SeriesFiles } from '../history/series-files.js'
import { noteAssigned } from '../guests/steps.js'
import { readBootId } from '../host/process/proc.js'
import type { SteadyClock } from '../../shared/steady-clock.js'
import { keepClock, openClock } from './clock.js'
import { openSecret } from './secret.js'
import { isImageOrdered, isImageUsed } from '../guests/record/image-users.js'
import { ImageAdmin } from '../images/admin.js'
import { imageBuildDefinition, imageDownloadKind } from '../images/definition.js'
import { Images } from '../images/images.js'
import { Exports } from '../exports/exports.js'
import { ImportStore } from '../imports/import-store.js'
import { Imports } from '../imports/imports.js'
import { GuestSampler } from '../metrics/guest-sampler.js'
import { Routing } from '../network/addresses/routing.js'
import type { Network } from '../network/contract.js'
import { MovedHistory } from '../moved-history/moved-history.js'
import { OperationStore } from '../operations/operation-store.js'
import { Orders, type OperationKinds } from '../operations/orders.js'
import { OperationEngine } from '../operations/engine.js'
import type { OperationDefinition, StepObserver } from '../operations/types.js'
import { Changes } from '../state/changes.js'
import { checkJournalPresent, openDatabase } from '../state/database.js'
import { swapKind, swapSubject } from '../swap/kind.js'
import { TrafficKeeper } from '../traffic/keeper.js'
import { TrafficStore } from '../traffic/traffic-store.js'
import type { Closers } from './closers.js'
import type { Host } from './host.js'

/** The journal and all parts of the agent that use it. */
export interface Domain {
  readonly abuse: AbuseWatch
  readonly arrivals: Arrivals
  readonly changes: Changes
  readonly context: BackupContext
  readonly engine: OperationEngine
  readonly kinds: OperationKinds<GuestRecord>
  readonly orders: Orders<GuestRecord>
  readonly capacity: HostCapacity
  readonly policy: TrafficKeeper
  readonly deletions: DueDeletions
  readonly routing: Routing
  readonly images: Images
  readonly imports: Imports
  readonly exports: Exports
  readonly imageAdmin: ImageAdmin
  readonly reconciler: Reconciler
  readonly sampler: GuestSampler
  readonly series: SeriesFiles
  /** The services that take scheduled snapshots and scheduled backups. */
  readonly snapshots: ScheduledRuns
  readonly backups: ScheduledRuns
  readonly startGate: StartGate
  readonly standbys: { readonly copies: StandbyCopies; readonly sender: StandbySender }
}

const waitsForGateway =
  'guests wait for a gateway and are not started yet, because other hosts may have restored them meanwhile'

export interface DomainOptions {
  config: AgentConfig
  log: Logger
  observer?: StepObserver
  /** Returns ms since 1970. Default: the host's clock. */
  now?: () => number
  /** Returns ms since any fixed moment. Default: `now` if it is set, otherwise the host's monotonic clock. */
  monotonic?: () => number
  /** Id of the host's present boot. Default: the id of the kernel. */
  bootId?: string
}

export async function openDomain(host: Host, options: DomainOptions, closers: Closers): Promise<Domain> {
  const { config, log, bootId = readBootId() } = options
  const [journalPath, secretPath] = [join(config.state_dir, 'journal.db'), join(config.state_dir, 'secret.key')]
  checkJournalPresent(journalPath, secretPath)
  const db = openDatabase(journalPath)
  closers.add(() => db.close())
  const clock = openClock(db, options)
  closers.add(keepClock(db, clock))
  const changes = new Changes(db)
  const store = new GuestStore(changes)
  const images = new Images({
    pool: host.images,
    changes,
    log,
    canRun: (kind) => host.drivers.enabled[kind] !== undefined,
    isUsed: (id) => isImageUsed({ operations: engine.store, guests: store }, id),
    isOrdered: (id) => isImageOrdered({ operations: engine.store, guests: store }, id),
  })
  const key = await openSecret(secretPath, store)
  const network = host.openNetwork({
    db,
    assignInside: async ({ uuid }, gone) => {
      const record = store.find(uuid)
      if (!record) return
      const result = await context.machines.driverOf(record).assignAddresses(context.machines.of(record), gone)
      noteAssigned(context.store, uuid, result)
    },
  })
  closers.add(() => network.close())
  const startGate = openStartGate(db, bootId, config.owner_check_seconds)
  if (startGate.leftMs === Infinity) log.warn(waitsForGateway)
  const series = new SeriesFiles(join(config.state_dir, 'history'))
  const history = new MovedHistory({
    store,
    operations: new OperationStore(changes),
    alerts: new AlertStore(changes),
    series,
    now: clock.now,
    log,
  })
  const ports = new HostPorts({ store, config: config.network, facts: host.facts })
  const imports = new Imports({
    store: new ImportStore(changes),
    config,
    ports,
    guests: store,
    engine: () => engine,
    readDisk: () => host.readCapacity(),
    archives: host.archives,
  })
  const context = createContext({
    host,
    options,
    clock,
    store,
    images,
    imports,
    ports,
    key,
    network,
    startGate,
    history,
  })
  const capacity = {
    cpuCores: host.cpuCores,
    ramTotalMb: host.ramTotalMb,
    readDisk: () => host.readCapacity(),
  }
  const { readDisk } = capacity
  const copies = new StandbyCopies({ context, capacity })
  const exports = new Exports({ context, readDisk })
  closers.add(() => exports.close())
  const traffic = new TrafficStore(changes)
  const readTraffic = async (uuid: string) => {
    await policy.count()
    return traffic.find(uuid) ?? null
  }
  const live = new LiveSender({ context, readTraffic })
  closers.add(() => live.close()) // runs after the operations have stopped
  const kinds: OperationKinds<GuestRecord> = {
    ...guestKinds(context, capacity, { copy: { context, readTraffic }, live }),
    imageDownload: imageDownloadKind({ images, readDisk }),
    changeSwap: swapKind({ swap: host.swap, busy: () => engine.busy(swapSubject) }),
  }
  const engine: OperationEngine = new OperationEngine({
    changes,
    definitions: [
      ...Object.values<OperationDefinition<unknown>>(kinds),
      scheduledSnapshotDefinition(context, capacity),
      scheduledBackupDefinition(context),
      imageBuildDefinition(images),
    ],
    parallel: config.operations.parallel,
    log,
    ...(options.observer ? { observer: options.observer } : {}),
  })
  closers.add(() => engine.close())
  const orders = new Orders(engine, kinds)
  const imageAdmin = new ImageAdmin({ images, engine })
  const sampler = new GuestSampler(context)
  closers.add(() => sampler.close())
  const reconciler = new Reconciler({
    context,
    orders,
    engine,
    onObserved: (observed) => sampler.observed(observed),
    repairStorage: (limitBytes) => {
      // Empties the trash in the background, because it can contain many subvolumes, which are deleted one by one.
      void host.volumes
        .sweep()
        .catch((err: unknown) => log.warn({ err }, 'could not empty the trash of the storage pool'))
      return host.volumes.ensureLimits(limitBytes, (uuid, set) =>
        context.store.mutex.run(uuid, async () => {
          const record = store.find(uuid)
          if (record) await set(volumeLimitOf(context.machines, record))
        }),
      )
    },
  })
  closers.add(() => reconciler.close())
  const policy: TrafficKeeper = new TrafficKeeper({
    context,
    clock,
    busy: (uuid) => engine.busy(guestSubject(uuid)),
    stop: (uuid, requestedBy) => stopNow(orders, uuid, requestedBy),
    start: (uuid) => startNow(orders, uuid),
    bootId,
  })
  closers.add(() => policy.close())
  const deletions = new DueDeletions({
    context,
    clock,
    busy: (uuid) => engine.busy(guestSubject(uuid)),
    remove: (uuid) => removeNow(orders, uuid),
  })
  closers.add(() => deletions.close())
  const abuse = new AbuseWatch({ context, policy, sensor: host.openSensor() })
  closers.add(() => abuse.close())
  sampler.onMemoryKills((uuid, kills) => abuse.memory.note(uuid, { kills, ended: false }))
  reconciler.onMemoryKill((uuid) => abuse.memory.note(uuid, { kills: 1, ended: true }))
  const arrivals = openArrivals({
    context,
    capacity,
    busy: (uuid) => engine.busy(guestSubject(uuid)),
    start: (uuid) => startNow(orders, uuid),
    putTraffic: (uuid, count) => traffic.put(uuid, { ...count, counterEpoch: '', counterRx: 0, counterTx: 0 }),
  })
  const standbys = {
    copies,
    sender: new StandbySender({ context, capacity, busy: (uuid) => engine.busy(guestSubject(uuid)) }),
  }
  closers.add(() => standbys.sender.close())
  const applyAddresses = (): Promise<void> => reconciler.network.ensure(['rules', 'addresses'])
  const routing = new Routing({ changes, config, book: network, applyAddresses, log, facts: host.facts })
  const snapshots = new ScheduledRuns({ kind: scheduledSnapshots(context), context, engine })
  const backups = new ScheduledRuns({ kind: scheduledBackups(context), context, engine })
  for (const runs of [snapshots, backups]) closers.add(() => runs.close())
  return {
    abuse,
    arrivals,
    changes,
    context,
    engine,
    orders,
    capacity,
    policy,
    deletions,
    routing,
    images,
    imports,
    exports,
    imageAdmin,
    kinds,
    reconciler,
    sampler,
    series,
    snapshots,
    backups,
    startGate,
    standbys,
  }
}

function stopNow(orders: Orders<GuestRecord>, uuid: string, requestedBy: string): void {
  const order = { $case: 'stop', value: { uuid, force: false } } as const
  orders.submitNow({ operationId: randomUUID(), requestedBy, order })
}

/** Submits the removal of a deleted guest whose deletion can no longer be undone. */
function removeNow(orders: Orders<GuestRecord>, uuid: string): void {
  const order = { $case: 'delete', value: { uuid, retainMs: 0 } } as const
  orders.submitNow({ operationId: randomUUID(), requestedBy: 'system', order })
}

/** Submits the start of a guest that was stopped because of a wrong clock. */
function startNow(orders: Orders<GuestRecord>, uuid: string): void {
  const order = { $case: 'start', value: { uuid, liftBlock: false } } as const
  orders.submitNow({ operationId: randomUUID(), requestedBy: 'system', order })
}

interface ContextParts {
  host: Host
  options: DomainOptions
  clock: SteadyClock
  store: GuestStore
  images: Images
  imports: Imports
  ports: HostPorts
  key: Buffer
  network: Network
  startGate: StartGate
  history: MovedHistory
}

function createContext(parts: ContextParts): BackupContext {
  const { host, store, images, imports, ports, network, key } = parts
  const { config, log } = parts.options
  const processors = new ProcessorPlaces(() => host.readCpus())
  store.changes.onChange(({ kind, key, removed }) => {
    if (kind === 'guest' && (removed || store.find(key)?.wanted !== 'running')) processors.forget(key)
  })
  const { gateway, prefixLength, resolvers, volumes, transfers } = host
  const { bridge, interface_prefix: interfacePrefix } = config.network
  const { enabled: drivers, settings } = host.drivers
  const nic = { bridge, interfacePrefix, gateway, prefixLength, resolvers }
  return {
    config,
    store,
    volumes,
    transfers,
    backups: host.backups,
    network,
    ports,
    imports,
    machines: new GuestMachines({ drivers, settings, processors, volumes, ...nic }),
    images: {
      checkUsable: (id, virtualization) => images.checkUsable(id, virtualization),
      checkBootable: (id, types) => images.checkBootable(id, types),
      idFor: (id, virtualization) => images.idFor(id, virtualization),
      osOf: (id) => images.osOf(id),
      has: (id) => images.has(id),
      ensure: (id, report, signal) => images.ensure(id, report, signal),
    },
    log,
    logins: new LoginVault(key),
    targets: new TargetVault(key),
    now: parts.clock.now,
    startGate: parts.startGate,
    history: parts.history,
  }
}
