import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import type { AgentConfig } from '../config.js'
import { MetricsFeed } from '../metrics/feed.js'
import { describeHost, type FixedDescription } from '../metrics/host-description.js'
import { HostSampler } from '../metrics/host-sampler.js'
import type { StepObserver } from '../operations/types.js'
import { readNatPorts } from '../network/addresses/store.js'
import { settingKinds } from '../guests/settings/kinds.js'
import { createBackupService } from '../rpc/backup-service.js'
import { createGuestSettingsService } from '../rpc/guest-settings-service.js'
import { createGuestService } from '../rpc/guest-service.js'
import { createHostService } from '../rpc/host-service.js'
import { createOperationService } from '../rpc/operation-service.js'
import { createRoutingService } from '../rpc/routing-service.js'
import { serve, type AgentServices } from '../rpc/server.js'
import { createServerCredentials, type AgentTls } from '../rpc/tls.js'
import { createWatchService } from '../rpc/watch-service.js'
import { watchKinds } from '../rpc/watch-kinds.js'
import { imageSubject } from '../images/definition.js'
import { pruneDone } from '../guests/settings/done.js'
import { thawGuests } from '../guests/thaw.js'
import { lockState } from '../state/lock.js'
import { Closers } from './closers.js'
import { openDomain, type Domain } from './domain.js'
import { checkInterfacePrefix, openHost, type Host } from './host.js'
import { readMetrics } from './metrics.js'
import { startUpkeep, type UpkeepParts } from './upkeep.js'

/** The gateway repeats an order within a day of its last attempt (Idempotency-Key). */
const rememberedDays = 2

export interface DaemonOptions {
  config: AgentConfig
  log: Logger
  version: string
  /** Default: the host that the agent runs on. */
  openHost?: (config: AgentConfig, log: Logger, closers: Closers) => Promise<Host>
  /** Told of every step's beginning and end; tests break the agent there. */
  observer?: StepObserver
}

export interface Daemon {
  readonly domain: Domain
  readonly tls: AgentTls
  /** Ends it; guests go on. */
  close(): Promise<void>
}

/**
 * The agent: the host first (pool, network), then what an earlier run left begun, then what should run,
 * and only then callers.
 */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  checkInterfacePrefix(options.config.network)
  const closers = new Closers()
  try {
    return { ...(await open(options, closers)), close: () => closers.run() }
  } catch (error) {
    await closers.run().catch((err: unknown) => options.log.error({ err }, 'close after a failed start'))
    throw error
  }
}

async function open(options: DaemonOptions, closers: Closers): Promise<Omit<Daemon, 'close'>> {
  const { config, log } = options
  const identityDir = join(config.state_dir, 'identity')
  const tls = createServerCredentials(identityDir)
  for (const directory of [config.state_dir, config.run_dir])
    await mkdir(directory, { recursive: true, mode: 0o711 })
  closers.add(lockState(join(config.state_dir, 'lock.db')))
  const host = await (options.openHost ?? openHost)(config, log, closers)
  const domain = await openDomain(host, options, closers)
  await recover(host, domain, config)
  const description = await describe(host, domain, options)
  const feed = await startSampling(host, domain, { config, log, closers })
  closers.add(startUpkeep({ tasks: upkeepOf(domain, config), log }))
  const describeNow = (): HostDescription => ({
    ...withNatPorts(description, domain),
    hostId: tls.identity().hostId,
  })
  closers.add(await serve({ listen: config.listen, identityDir, tls }, servicesOf(domain, describeNow, feed)))
  tls.onMoved(({ hostId }) => log.info({ host: hostId }, 'joined anew; connections of before end'))
  log.info(
    { host: tls.identity().hostId, listen: config.listen, guests: domain.context.store.list().length },
    'agent ready',
  )
  return { domain, tls }
}

/** The network stands before any guest starts; what was begun ends before anything new begins. */
async function recover(host: Host, domain: Domain, config: AgentConfig): Promise<void> {
  const { context, engine, images, policy, reconciler } = domain
  await images.sweep()
  await context.backups.sweep()
  await thawGuests(context)
  await reconciler.ensureNetwork(['rules'])
  reconciler.listen()
  engine.recover()
  await policy.look() // what expired meanwhile is not started again
  await reconciler.pass()
  reconciler.start(config.reconcile_interval_seconds * 1000)
  policy.start(config.traffic.interval_seconds * 1000)
  for (const templateId of config.images.prefetch) prefetch(domain, templateId)
}

/** The journal may not grow for ever; the trash is the reconciler's. */
function upkeepOf({ engine, changes }: Domain, config: AgentConfig): UpkeepParts['tasks'] {
  return {
    operations: () => engine.prune(config.operations.keep_days),
    removed: async () => engine.forgetRemoved(rememberedDays),
    settings: async () => pruneDone(changes.db, Date.now() - rememberedDays * 86_400_000),
  }
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

async function describe(
  host: Host,
  domain: Domain,
  { config, version }: DaemonOptions,
): Promise<FixedDescription> {
  const { start, end } = config.network.nat_ports
  return describeHost({
    version,
    timeZone: config.time_zone,
    ...(await host.drivers.describe()),
    cpuCores: host.cpuCores,
    ramTotalMb: host.ramTotalMb,
    poolTotalBytes: (await host.readCapacity()).totalBytes,
    natPortsTotal: end - start + 1,
    ipv4Total: host.ipv4Total,
  })
}

async function startSampling(
  host: Host,
  domain: Domain,
  { config, log, closers }: { config: AgentConfig; log: Logger; closers: Closers },
): Promise<MetricsFeed> {
  const feed = new MetricsFeed()
  const sampler = new HostSampler({
    poolCapacity: () => host.readCapacity(),
    onSample: async (sample) => feed.publish(await readMetrics(sample, domain, host.describeWeaknesses())),
    log,
  })
  closers.add(() => sampler.close())
  await sampler.start(config.metrics.host_interval_seconds * 1000)
  domain.sampler.start(config.metrics.guest_interval_seconds * 1000)
  return feed
}

/** The range of ports may be set through the API while the agent runs. */
function withNatPorts(description: FixedDescription, { changes, context }: Domain): FixedDescription {
  const { start, end } = readNatPorts(changes.db, context.config.network.nat_ports)
  const { capacity: size } = description
  return { ...description, capacity: size && { ...size, natPortsTotal: end - start + 1 } }
}

function servicesOf(domain: Domain, describe: () => HostDescription, metrics: MetricsFeed): AgentServices {
  const { changes, context, engine, orders, capacity, policy, routing, images, sampler } = domain
  const { log } = context
  return {
    backups: createBackupService({ backups: context.backups, log }),
    guests: createGuestService({ store: context.store, sampler, log }),
    settings: createGuestSettingsService({
      context,
      policy,
      kinds: settingKinds({ context, policy, capacity }),
      log,
    }),
    routing: createRoutingService(routing, log),
    operations: createOperationService({ engine, orders, changes, log }),
    hosts: createHostService(describe, log),
    watch: createWatchService({
      ...{ changes, describe, metrics },
      kinds: watchKinds({ guests: context.store, operations: engine.store, images: images.store }),
      failed: (err) => log.error({ err }, 'watch failed'),
    }),
  }
}
