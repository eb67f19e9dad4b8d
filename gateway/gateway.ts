import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { PeriodicTasks } from '../shared/async/periodic-tasks.js'
import { readOrCreateKey } from '../shared/sealing.js'
import { splitHostPort } from '../shared/join-token.js'
import { createTimeFormat } from '../shared/time.js'
import { createAccess } from './callers.js'
import { createDescribe } from './api/events/describe.js'
import { createApi } from './api/create-api.js'
import { keepTargets } from './backups/keep-targets.js'
import { BackupTargets } from './backups/targets.js'
import { limitsOf, retentionOf, webhookPolicy, type GatewayConfig } from './config.js'
import type { Consoles } from './console/consoles.js'
import { Balancing } from './balancing/balancing.js'
import { Drains } from './drains/drains.js'
import { EventHub } from './events/hub.js'
import { EventJournal } from './events/journal.js'
import { SharedOrder } from './events/shared-order.js'
import { GatewayFleet } from './fleet/fleet.js'
import { FleetState } from './fleet/view.js'
import { Gateways } from './gateways/gateways.js'
import { ensureGatewayKey, ensureOwnGateway } from './gateways/own-gateway.js'
import { CustomImages } from './images/custom-images.js'
import { keepImages } from './images/keep-images.js'
import { Maintenance } from './maintenance/maintenance.js'
import { AccessPolicies } from './policy/access-policy.js'
import { GuestTrend } from './usage/guest-trend.js'
import { PanelSettings } from './settings/panel-settings.js'
import { FleetAuthority } from './pki/fleet-authority.js'
import { SecurityAudit } from './access/security-audit.js'
import { auditStandbyEnd } from './access/standby-audit.js'
import { Webhooks } from './webhooks/webhooks.js'
import { checkStateComplete } from './store/state-files.js'
import { downloadFile } from './http/cli-download.js'
import { startHttpServer, type HttpServer } from './http/server.js'
import type { ListeningSockets } from './sockets/listening-sockets.js'
import { externalServerOf } from './store/redis-settings.js'
import { redisProcessOf, type RedisProcess } from './store/redis-process.js'
import { Store } from './store/store.js'
import { tlsOptionsOf } from './tls/options.js'
import { Tls } from './tls/tls.js'
import { FleetUpgrades } from './upgrades/fleet-upgrades.js'

/** Maximum time in ms for clients to change to new connections before a shutdown. Requests are still served. */
const lingerMs = 2000
/** Maximum time in ms for requests in progress at shutdown. */
const graceMs = 10_000
/** Maximum time in ms that requests wait at the start for the private Redis to load its data. */
const loadStoreMs = 10_000
/** Maximum delay in ms until a host that has joined or was offline receives the current settings. */
const upkeepEveryMs = 60_000

export interface GatewayOptions {
  readonly config: GatewayConfig
  /** Value of BERTH_REDIS_URL, which overrides the configuration. "": not set. */
  readonly redisUrl: string
  readonly version: string
  readonly log: Logger
  /** Keeps the listening sockets open while the service restarts. If absent, they close when the process ends. */
  readonly sockets?: ListeningSockets | undefined
  /** Called if this gateway was removed from the fleet and must stop. */
  readonly onRemoved?: () => void
}

type Close = () => Promise<void>

/**
 * Starts the gateway. While the store is down, the gateway answers 503.
 * @returns a function that stops the gateway: it accepts no new connections, waits for requests in progress, and stops
 * all parts in reverse order
 */
export async function startGateway(options: GatewayOptions): Promise<Close> {
  const closers: Close[] = []
  const closeAll: Close = async () => {
    for (const close of closers.splice(0).toReversed())
      await close().catch((err: unknown) => options.log.error({ err }, 'could not stop a part of the gateway'))
  }
  try {
    await startParts(options, (close) => closers.push(close))
    return closeAll
  } catch (error) {
    await closeAll()
    throw error
  }
}

async function startParts(
  { config, redisUrl, version, log, sockets, onRemoved }: GatewayOptions,
  onClose: (close: Close) => void,
): Promise<void> {
  const time = createTimeFormat(config.time_zone)
  // This check must come first. The next two lines create missing files, which would hide that files were lost.
  checkStateComplete(config.state_dir)
  const authority = await FleetAuthority.open(join(config.state_dir, 'pki'), config.certificates.ca_days)
  const secret = await readOrCreateKey(join(config.state_dir, 'secret'))
  const external = externalServerOf({ redis: config.redis, redisUrl })
  const redis = external ? undefined : startPrivateRedis(config, log, onClose)
  const store = new Store({
    ...(external ?? { url: redis?.url ?? '' }),
    prefix: config.redis.prefix,
    log,
    serverProblem: () => redis?.problem ?? '',
  })
  const limits = limitsOf(config)
  const retention = retentionOf(config)
  const auditKeep = config.audit.keep
  const access = createAccess({ store, secret, stateDir: config.state_dir, auditKeep, retention, limits, log })
  const { max_body_bytes: maxBodyBytes, trusted_proxies: trustedProxies, metrics: metricsFor } = config.http
  const policies = new AccessPolicies({ store, trustedProxies, log })
  const settings = new PanelSettings(store, log)
  const guestTrend = new GuestTrend(store, log)
  const tlsOptions = await tlsOptionsOf(config)
  const listen = splitHostPort(config.listen)
  await sockets?.retain(
    [listen, splitHostPort(config.join_listen), tlsOptions.listen, tlsOptions.httpListen].filter(
      (address) => address !== undefined,
    ),
  )
  const tls = new Tls({ store, secret, log, sockets, ...tlsOptions })
  const webhooks = new Webhooks({ store, secret, policy: webhookPolicy(config), log })
  const fleetUpgrades = new FleetUpgrades({ store, log })
  const backupTargets = new BackupTargets(store, secret)
  const drains = new Drains({ store, log, openTarget: (id) => backupTargets.open(id) })
  const maintenance = new Maintenance({ store, log })
  const balancing = new Balancing({ store, log, audit: access.audit, drains, fleetUpgrades, time })
  const gateways = new Gateways({
    store,
    authority,
    own: await ensureOwnGateway(config.state_dir),
    privateKey: await ensureGatewayKey(config.state_dir),
    version,
    stateDir: config.state_dir,
    redis: { redis: config.redis, redisUrl },
    tokenLifetimeMs: config.join_token_minutes * 60_000,
    log,
    onRemoved: onRemoved ?? (() => undefined),
  })
  const describe = createDescribe(time)
  const view = new FleetState()
  const journal = new EventJournal({ path: join(config.run_dir, 'events'), log })
  const order = new SharedOrder({ store, log, isShared: () => gateways.hasOthers })
  const events = new EventHub({ view, describe, journal, order })
  gateways.onChange(() => events.shareOrder())
  view.resume(journal.former?.hosts.values() ?? [])
  const standbyEnded = auditStandbyEnd(access.audit)
  const shared = { store, config, log, view, sockets, gateways, authority }
  const fleet = await GatewayFleet.open({ ...shared, version, standbyEnded })
  store.start()
  onClose(() => store.close())
  access.start()
  onClose(() => access.close())
  onClose(async () => {
    events.close() // both end in one turn of the event loop, so that the journal misses no change
    await fleet.close()
  })
  const securityAudit = new SecurityAudit({ view: fleet.view, audit: access.audit, store, log })
  const customImages = new CustomImages(store)
  const upkeep = new PeriodicTasks(
    {
      'backup targets of schedules': keepTargets({ fleet, targets: backupTargets, log }),
      'number of guests': () => guestTrend.record(fleet),
      'custom images': keepImages({ fleet, images: customImages, log }),
    },
    log,
  )
  let closing = false
  const isClosing = () => closing
  const http = { maxBodyBytes, metricsFor, policies, settings, tls }
  const panelDirectory = join(import.meta.dirname, '../panel')
  const cliFile = join(import.meta.dirname, downloadFile)
  const about = { version, panelDirectory, cliFile, log, isClosing }
  const api = createApi({
    fleet,
    access,
    store,
    backupTargets,
    customImages,
    upkeep,
    guestTrend,
    events,
    webhooks,
    fleetUpgrades,
    drains,
    balancing,
    fencing: config.fencing,
    maintenance,
    gateways,
    time,
    ...about,
    ...http,
  })
  // The private Redis has been loading its data while the routes were compiled above.
  if (redis) await store.connected(loadStoreMs).catch(() => undefined)
  await fleet.start()
  events.start(fleet.isComplete)
  securityAudit.start()
  onClose(() => securityAudit.stop())
  fleetUpgrades.start(fleet)
  onClose(() => fleetUpgrades.close())
  drains.start(fleet)
  onClose(() => drains.close())
  balancing.start(fleet)
  onClose(() => balancing.close())
  maintenance.start(fleet)
  onClose(() => maintenance.close())
  upkeep.start(upkeepEveryMs)
  onClose(() => upkeep.close())
  webhooks.start(fleet.view, describe)
  onClose(() => webhooks.close())
  const leases = [
    webhooks.lease,
    fleetUpgrades.lease,
    drains.lease,
    balancing.lease,
    maintenance.lease,
    fleet.rotation.lease,
  ]
  gateways.start(
    () => fleet.joinAddress,
    leases,
    () => fleet.view.onlineHostIds,
  )
  onClose(() => gateways.close())
  const server = await startHttpServer(api, { listen, log, sockets })
  await tls.start(api)
  const leaving = {
    server,
    tls,
    fleet,
    consoles: api.consoles,
    events,
    drainMs: () => (gateways.isRemoved ? 0 : config.http.drain_seconds * 1000),
    lingerMs: () => (gateways.isRemoved ? 0 : lingerMs),
  }
  onClose(() => leave(leaving, () => (closing = true)))
  log.info({ url: server.url, version }, 'the gateway has started')
}

interface LeavingParts {
  readonly server: HttpServer
  readonly tls: Tls
  readonly fleet: GatewayFleet
  readonly consoles: Consoles
  readonly events: EventHub
  /** Returns the time in ms for load balancers to notice that this gateway stops. Requests are still served. */
  readonly drainMs: () => number
  /** Returns the maximum time in ms for clients to change to new connections. Requests are still served. */
  readonly lingerMs: () => number
}

/** Stops serving clients without failing a request. @param onClosing makes `/readyz` report the shutdown */
async function leave(
  { server, tls, fleet, consoles, events, drainMs, lingerMs }: LeavingParts,
  onClosing: () => void,
): Promise<void> {
  onClosing()
  await delay(drainMs())
  await Promise.all([server.connections.drain(lingerMs()), tls.drain(lingerMs())])
  const closed = Promise.all([server.connections.close(graceMs), tls.close(), fleet.closeJoin(graceMs)])
  consoles.closeAll()
  events.endStreams()
  await closed
}

/** Starts the private Redis server, and starts it again whenever it ends. */
function startPrivateRedis(config: GatewayConfig, log: Logger, onClose: (close: Close) => void): RedisProcess {
  const redis = redisProcessOf(config, log)
  redis.start().catch((err: unknown) => log.error({ err }, 'could not start the private redis-server'))
  onClose(() => redis.stop())
  return redis
}
