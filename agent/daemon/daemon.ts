import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { PeriodicTasks, type PeriodicTaskTable } from '../../shared/async/periodic-tasks.js'
import type { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import type { AgentConfig } from '../config.js'
import type { UsageHistory } from '../history/history.js'
import { describePackages } from '../upgrade/describe.js'
import { MetricsFeed } from '../metrics/feed.js'
import { HostSampler } from '../metrics/host-sampler.js'
import type { StepObserver } from '../operations/types.js'
import { isBeingRemoved } from '../guests/operations/delete.js'
import { settingKinds } from '../guests/settings/kinds.js'
import { AgentConsoles } from '../console/consoles.js'
import { createBackupService } from '../rpc/backup-service.js'
import { createConsoleService } from '../rpc/console-service.js'
import { Fences } from '../rpc/fences.js'
import type { ArchiveReader } from '../imports/contract.js'
import { createDescribeArchive } from '../imports/describe-archive.js'
import { createArchiveService, createArchiveStreamService } from '../rpc/archive-service.js'
import { createExportService } from '../rpc/export-service.js'
import { createGuestSettingsService } from '../rpc/guest-settings-service.js'
import { ConnectionDiagnosis } from '../guests/diagnosis/diagnose.js'
import { createGuestService } from '../rpc/guest-service.js'
import { createHostService, type UpgradeParts } from '../rpc/host-service.js'
import { createImageService } from '../rpc/image-service.js'
import { createImportService } from '../rpc/import-service.js'
import { serveImports } from '../imports/import-server.js'
import { createSecurityService } from '../rpc/security-service.js'
import { createMoveService } from '../rpc/move-service.js'
import { createOperationService } from '../rpc/operation-service.js'
import { createRoutingService } from '../rpc/routing-service.js'
import { serve, type AgentServices } from '../rpc/server.js'
import { findAuthority } from '../enrollment/authorities.js'
import { createServerCredentials, type AgentTls } from '../rpc/tls.js'
import { createTransferService } from '../rpc/transfer-service.js'
import { createWatchService } from '../rpc/watch-service.js'
import { watchKinds } from '../rpc/watch-kinds.js'
import { imageSubject } from '../images/definition.js'
import { targetPolicy } from '../images/image-settings.js'
import { pruneDone } from '../guests/settings/done.js'
import type { GuestContext } from '../guests/context.js'
import { refuseUpgrade } from '../guests/moves/refuse-upgrade.js'
import { thawGuests } from '../guests/snapshots/thaw.js'
import { lockState } from '../state/lock.js'
import type { HostSwap } from '../swap/contract.js'
import { ensureSwap } from '../swap/ensure.js'
import { swapSubject } from '../swap/kind.js'
import { Closers } from './closers.js'
import { HostDescriber } from './describer.js'
import { openDomain, type Domain } from './domain.js'
import { checkInterfacePrefix, openHost, type Host } from './host.js'
import { openHistory } from './history.js'
import { readMetrics } from './metrics.js'

/** Days for which ids of removed operations and of changes are remembered. Clients can repeat requests for one day. */
const rememberedDays = 2
const hourMs = 3_600_000

/** Interval in ms between checks of schedules. The times of schedules are whole minutes. */
const scheduleLookMs = 10_000

export interface DaemonOptions {
  config: AgentConfig
  log: Logger
  version: string
  /** Opens the host. Default: the host on which the agent runs. */
  openHost?: (config: AgentConfig, log: Logger, closers: Closers) => Promise<Host>
  /** Called at the start and end of each step of an operation; tests interrupt the agent at these points. */
  observer?: StepObserver
  /** Returns ms since 1970. For tests; default: the host's clock. */
  now?: () => number
  /** Returns ms since any fixed moment. For tests; default: `now` if it is set, otherwise a monotonic clock. */
  monotonic?: () => number
  /** Id of the host's present boot. For tests; default: the id of the kernel. */
  bootId?: string
}

export interface Daemon {
  readonly domain: Domain
  readonly tls: AgentTls
  /** Ends the agent. Guests continue to run. */
  close(): Promise<void>
}

/**
 * Starts the agent: prepares the host (pool and network), resumes unfinished operations, and starts all guests that
 * should be running. Then starts the gRPC server.
 */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  checkInterfacePrefix(options.config.network)
  const closers = new Closers()
  try {
    return { ...(await open(options, closers)), close: () => closers.run() }
  } catch (error) {
    await closers
      .run()
      .catch((err: unknown) =>
        options.log.error({ err }, 'the agent could not start, and could not stop the parts that were already running'),
      )
    throw error
  }
}

async function open(options: DaemonOptions, closers: Closers): Promise<Omit<Daemon, 'close'>> {
  const { config, log } = options
  const identityDir = join(config.state_dir, 'identity')
  const tls = createServerCredentials(identityDir)
  closers.add(() => tls.close())
  for (const directory of [config.state_dir, config.run_dir]) await mkdir(directory, { recursive: true, mode: 0o711 })
  closers.add(lockState(join(config.state_dir, 'lock.db')))
  const host = await (options.openHost ?? openHost)(config, log, closers)
  const domain = await openDomain(host, options, closers)
  await recover(host, domain, config)
  const describer = await HostDescriber.open(host, domain, options)
  const feed = await startSampling(host, domain, { config, log, closers, describer })
  const history = openHistory({ host, domain, config, feed })
  closers.add(() => history.close())
  history.start()
  const upkeep = new PeriodicTasks(upkeepOf(host, domain, config), log)
  closers.add(() => upkeep.close())
  upkeep.start(hourMs)
  void upkeep.run()
  const describeNow = (): HostDescription => ({
    ...describer.now,
    ...describePackages(host.packages),
    hostId: tls.identity().hostId,
  })
  const keepMs = config.consoles.keep_seconds * 1000
  const consoles = new AgentConsoles({ context: domain.context, connections: host.consoles, keepMs })
  const { archives, swap, packages } = host
  const diagnosis = new ConnectionDiagnosis(domain.context, host)
  const refuse = (): void => refuseUpgrade(domain.context.store)
  const upgrade = {
    packages,
    refuse,
    readAuthority: (fingerprint: string) => findAuthority(tls.identity(), fingerprint),
  }
  const parts = { archives, describe: describeNow, metrics: feed, history, swap, consoles, diagnosis, upgrade }
  const services = servicesOf(domain, parts)
  const fences = new Fences(domain.changes.db)
  closers.add(await serve({ listen: config.listen, identityDir, tls, fences }, services))
  closers.add(await serveImports(domain.imports, config.run_dir, log))
  tls.onMoved(({ hostId }) => log.info({ host: hostId }, 'the host joined again; earlier connections are closed'))
  log.info(
    { host: tls.identity().hostId, listen: config.listen, guests: domain.context.store.list().length },
    'the agent is ready',
  )
  return { domain, tls }
}

/** Makes the network ready before any guest starts, and finishes old operations before new ones begin. */
async function recover(host: Host, domain: Domain, config: AgentConfig): Promise<void> {
  const { abuse, context, engine, images, policy, deletions, reconciler, snapshots, backups } = domain
  await images.sweep()
  await context.backups.sweep()
  await domain.exports.sweep()
  await domain.standbys.copies.sweep()
  domain.changes.transaction(() => context.history.prune())
  await domain.standbys.sender.sweep()
  await thawGuests(context)
  await adoptProcessors(context)
  await reconciler.network.ensure(['rules'])
  reconciler.listen()
  engine.recover()
  if (!engine.busy(swapSubject)) await ensureSwap(host.swap, context.log)
  await policy.look() // guests that have expired must not be started
  await reconciler.pass()
  reconciler.start(config.reconcile_interval_seconds * 1000)
  deletions.start(config.traffic.interval_seconds * 1000)
  policy.start(config.traffic.interval_seconds * 1000)
  for (const runs of [snapshots, backups]) runs.start(scheduleLookMs)
  await abuse.start()
  for (const templateId of config.images.prefetch) prefetch(domain, templateId)
}

/** Finds out which processors each running guest uses, so that guests stay on their processors. */
async function adoptProcessors({ machines, store }: Pick<GuestContext, 'machines' | 'store'>): Promise<void> {
  for (const driver of machines.drivers) machines.processors.adopt(await driver.readProcessors(), store.list())
}

/**
 * Returns periodic tasks. Some limit the size of the journal. Others retry work that failed when the agent started, for
 * example because the network was missing.
 */
function upkeepOf(host: Host, domain: Domain, config: AgentConfig): PeriodicTaskTable {
  const { abuse, context, engine, changes } = domain
  const { keep_days: keepDays, keep, remember } = config.operations
  return {
    images: async () => config.images.prefetch.forEach((id) => prefetchAgain(domain, id)),
    swap: async () => (engine.busy(swapSubject) ? undefined : ensureSwap(host.swap, context.log)),
    exports: () => domain.exports.sweep(),
    operations: () => engine.prune(keepDays, keep),
    alerts: () => abuse.prune(),
    removed: async () => engine.forgetRemoved(rememberedDays, remember),
    settings: async () => pruneDone(changes.db, context.now() - rememberedDays * 86_400_000, remember),
  }
}

/** Builds a template's image again if its last build failed. */
function prefetchAgain(domain: Domain, templateId: string): void {
  const template = domain.images.find(templateId)
  if (!template || template.failure === '' || domain.engine.busy(imageSubject(template))) return
  prefetch(domain, templateId)
}

function prefetch({ engine, images }: Domain, templateId: string): void {
  const template = images.find(templateId)
  if (template?.available !== false) return
  engine.submit({
    id: randomUUID(),
    action: 'image_build',
    subject: imageSubject(template),
    input: { templateId },
    requestedBy: 'system',
  })
}

interface SamplingParts {
  readonly config: AgentConfig
  readonly log: Logger
  readonly closers: Closers
  readonly describer: HostDescriber
}

async function startSampling(
  host: Host,
  domain: Domain,
  { config, log, closers, describer }: SamplingParts,
): Promise<MetricsFeed> {
  const feed = new MetricsFeed()
  const sampler = new HostSampler({
    poolCapacity: () => host.readCapacity(),
    onSample: async (sample) => {
      await describer.look()
      feed.publish(await readMetrics(sample, domain, host.describeWeaknesses()))
    },
    log,
  })
  closers.add(() => sampler.close())
  await sampler.start(config.metrics.host_interval_seconds * 1000)
  domain.sampler.start(config.metrics.guest_interval_seconds * 1000)
  return feed
}

interface ServiceParts {
  readonly archives: ArchiveReader
  readonly describe: () => HostDescription
  readonly metrics: MetricsFeed
  readonly history: UsageHistory
  readonly swap: HostSwap
  readonly consoles: AgentConsoles
  readonly diagnosis: ConnectionDiagnosis
  readonly upgrade: UpgradeParts
}

function servicesOf(
  domain: Domain,
  { archives, describe, metrics, history, swap, consoles, diagnosis, upgrade }: ServiceParts,
): AgentServices {
  const { abuse, arrivals, changes, context, engine, orders, capacity, policy, routing, images, sampler } = domain
  const { standbys } = domain
  const { log } = context
  return {
    moves: createMoveService({ arrivals, context, changes, startGate: domain.startGate, standbys, log }),
    transfers: createTransferService({
      context,
      ...arrivals,
      standbys: standbys.copies,
      readPool: capacity.readDisk,
      log,
    }),
    archives: createArchiveService({ describeArchive: createDescribeArchive(archives), log }),
    archiveStreams: createArchiveStreamService({ uploads: domain.imports.uploads, log }),
    backups: createBackupService({ backups: context.backups, log }),
    consoles: createConsoleService({ consoles, log }),
    exports: createExportService({ exports: domain.exports, log }),
    guests: createGuestService({ context, policy, diagnosis, sampler, history, log }),
    settings: createGuestSettingsService({
      context,
      policy,
      kinds: settingKinds({
        context,
        policy,
        capacity,
        standbys: standbys.sender,
        isBeingRemoved: (uuid) => isBeingRemoved(engine, uuid),
      }),
      log,
    }),
    routing: createRoutingService(routing, log),
    operations: createOperationService({ engine, orders, changes, log }),
    imports: createImportService({ imports: domain.imports.store, changes, log }),
    images: createImageService({ admin: domain.imageAdmin, changes, log, policy: targetPolicy(context.config.images) }),
    security: createSecurityService({ abuse, changes, log }),
    hosts: createHostService({ describe, swap, history, upgrade, log }),
    watch: createWatchService({
      changes,
      describe,
      metrics,
      kinds: watchKinds({
        guests: context.store,
        operations: engine.store,
        images: images.store,
        alerts: abuse.alerts,
        imports: domain.imports.store,
      }),
      failed: (err) => log.error({ err }, 'could not send changes to the gateway'),
    }),
  }
}
