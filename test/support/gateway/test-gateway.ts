import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Logger } from 'pino'
import { PeriodicTasks } from '../../../shared/async/periodic-tasks.js'
import { GatewayConfigSchema } from '../../../gateway/config.js'
import { Gateways } from '../../../gateway/gateways/gateways.js'
import { ensureGatewayKey, ensureOwnGateway } from '../../../gateway/gateways/own-gateway.js'
import { ensureAuthority } from '../../../gateway/pki/authority.js'
import { createAccess, noLimits, type Access, type LimitOptions } from '../../../gateway/callers.js'
import { createAdminKey } from '../../../gateway/access/bootstrap.js'
import { keepTargets } from '../../../gateway/backups/keep-targets.js'
import { Balancing } from '../../../gateway/balancing/balancing.js'
import { Drains } from '../../../gateway/drains/drains.js'
import { Maintenance } from '../../../gateway/maintenance/maintenance.js'
import { EventHub, type HubOptions } from '../../../gateway/events/hub.js'
import { BackupTargets } from '../../../gateway/backups/targets.js'
import { CustomImages } from '../../../gateway/images/custom-images.js'
import { keepImages } from '../../../gateway/images/keep-images.js'
import { downloadFile } from '../../../gateway/http/cli-download.js'
import type { MetricsReaders } from '../../../gateway/http/health.js'
import { AccessPolicies } from '../../../gateway/policy/access-policy.js'
import { GuestTrend } from '../../../gateway/usage/guest-trend.js'
import { PanelSettings } from '../../../gateway/settings/panel-settings.js'
import { createDescribe } from '../../../gateway/api/events/describe.js'
import { createApi, type Api } from '../../../gateway/api/create-api.js'
import { Webhooks, type WebhooksOptions } from '../../../gateway/webhooks/webhooks.js'
import { startHttpServer, type HttpServer, type HttpTimeouts } from '../../../gateway/http/server.js'
import { Store } from '../../../gateway/store/store.js'
import { Tls, type TlsOptions } from '../../../gateway/tls/tls.js'
import { FleetUpgrades } from '../../../gateway/upgrades/fleet-upgrades.js'
import { readText, type OutboundAnswer } from '../../../shared/outbound-request.js'
import { validateConfig } from '../../../shared/config.js'
import { readOrCreateKey } from '../../../shared/sealing.js'
import { createTimeFormat } from '../../../shared/time.js'
import { createClient } from '../ask.js'
import { responseCheckOf } from './openapi-check.js'
import type { Body } from '../body.js'
import { silentLog, startTestRedis, type TestRedis } from './redis.js'
import type { FencingConfig } from '../../../gateway/fencing/fence-host.js'
import { LabFleet } from '../memory/lab-fleet.js'
import { waitFor } from '../wait.js'

export interface Reply {
  readonly status: number
  readonly headers: Record<string, string>
  readonly text: string
  /** The body as parsed JSON; `undefined` if it is not JSON. */
  readonly body: Body
}

export interface RequestOptions {
  /** API key of the request. By default the administrator's key; "": the request has no key. */
  key?: string
  /** The body. It is sent as JSON unless it is a string or a Buffer. */
  body?: unknown
  headers?: Record<string, string>
}

/** A gateway with its real HTTP interface, access control and Redis. The hosts of its real agents are simulated. */
export interface TestGateway {
  readonly fleet: LabFleet
  readonly api: Api
  readonly access: Access
  readonly store: Store
  /** The periodic tasks, which run only on request of a test. */
  readonly upkeep: PeriodicTasks
  readonly events: EventHub
  readonly webhooks: Webhooks
  readonly fleetUpgrades: FleetUpgrades
  readonly drains: Drains
  readonly balancing: Balancing
  readonly maintenance: Maintenance
  readonly redis: TestRedis
  readonly tls: Tls
  readonly url: string
  readonly adminKey: string
  /**
   * Sends a request and checks the response. `path` is relative to /api/v1, unless it begins with /api or is a page.
   */
  request(method: string, path: string, options?: RequestOptions): Promise<Reply>
  makeKey(fields: { scopes?: string[]; container_uuids?: string[]; name?: string }): Promise<string>
  /** Closes only the HTTP server, as at a shutdown. */
  closeServer(graceMs: number): Promise<void>
  close(): Promise<void>
}

export interface TestGatewayOptions {
  /** The fencing program. Default: none. */
  readonly fencing?: Partial<FencingConfig>
  readonly maxBodyBytes?: number
  readonly trustedProxies?: readonly string[]
  readonly timeouts?: HttpTimeouts
  readonly log?: Logger
  /** Names of the hosts. By default only `host-a`. */
  readonly hosts?: readonly string[]
  /** Settings in the agent.yaml of each agent. */
  readonly agentConfig?: Record<string, unknown>
  /** Time in ms until a host whose connection was lost is offline. Default: 0, so that tests need not wait. */
  readonly reconnectMs?: number
  /** Limits of the requests. Default: no limits. */
  readonly limits?: Partial<LimitOptions>
  readonly metricsFor?: MetricsReaders
  /** Clock for tickets and maintenance, in ms since 1970. */
  readonly now?: () => number
  /** Settings of the event hub. Default: the settings of the product. */
  readonly events?: Partial<HubOptions>
  /** Settings of webhooks. Default: the settings of the product, except that webhooks can only reach this machine. */
  readonly webhooks?: Partial<WebhooksOptions>
  /** Settings of TLS. By default TLS is not possible. */
  readonly tls?: Partial<TlsOptions>
  /** Directory of the built panel. By default the gateway serves no panel. */
  readonly panelDirectory?: string
}

/** Allows webhooks to receivers of tests, which listen on loopback. */
const loopbackPolicy = { allowHttp: true, allowedTargets: ['127.0.0.1'], setting: 'webhooks.allowed_targets' }

const noTls = {
  listen: undefined,
  httpListen: undefined,
  plainIsPublic: false,
  acme: { directory: 'https://127.0.0.1:9/directory', caPem: '' },
}

export async function startTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const log = options.log ?? silentLog
  const redis = await startTestRedis()
  const stateDir = await mkdtemp(join(tmpdir(), 'btest-api-'))
  const keyFile = join(stateDir, 'admin.key')
  await createAdminKey(stateDir, keyFile)
  const adminKey = (await readFile(keyFile, 'utf8')).trim()
  const store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
  const secret = await readOrCreateKey(join(stateDir, 'secret'))
  const limits = { ...noLimits, ...options.limits }
  const access = createAccess({ store, secret, stateDir, auditKeep: 1000, log, limits })
  const policies = new AccessPolicies({ store, trustedProxies: options.trustedProxies ?? [], log })
  const settings = new PanelSettings(store, log)
  const guestTrend = new GuestTrend(store, log, options.now)
  const tls = new Tls({ store, secret, log, ...noTls, ...options.tls })
  const webhooks = new Webhooks({ store, secret, log, policy: loopbackPolicy, ...options.webhooks })
  const fleetUpgrades = new FleetUpgrades({ store, log, everyMs: 50 })
  const backupTargets = new BackupTargets(store, secret)
  const openTarget = (id: string) => backupTargets.open(id)
  const drains = new Drains({ store, log, openTarget, everyMs: 50, retryMs: 100 })
  const maintenance = new Maintenance({ store, log, everyMs: 50, ...(options.now && { now: options.now }) })
  const time = createTimeFormat('UTC')
  const balancing = new Balancing({ store, log, audit: access.audit, drains, fleetUpgrades, time, everyMs: 50 })
  const gateways = new Gateways({
    store,
    authority: await ensureAuthority(join(stateDir, 'pki'), 10),
    own: await ensureOwnGateway(stateDir),
    privateKey: await ensureGatewayKey(stateDir),
    version: '0.0.0-test',
    stateDir,
    redis: { redis: validateConfig(GatewayConfigSchema, {}, 'test').redis, redisUrl: redis.url },
    tokenLifetimeMs: 60_000,
    log,
    onRemoved: () => undefined,
  })
  store.start()
  access.start()
  const leases = [webhooks.lease, fleetUpgrades.lease, drains.lease, balancing.lease, maintenance.lease]
  gateways.start(
    () => '127.0.0.1:8081',
    leases,
    () => [],
  )
  await waitFor(() => store.ready(), { what: 'store connected' })
  const fleet = await LabFleet.start({
    store,
    stateDir,
    log: silentLog,
    ...(options.hosts && { hosts: options.hosts }),
    ...(options.agentConfig && { agentConfig: options.agentConfig }),
    ...(options.reconnectMs !== undefined && { reconnectMs: options.reconnectMs }),
  })
  fleetUpgrades.start(fleet)
  drains.start(fleet)
  balancing.start(fleet)
  maintenance.start(fleet)
  const customImages = new CustomImages(store)
  const upkeep = new PeriodicTasks(
    {
      targets: keepTargets({ fleet, targets: backupTargets, log }),
      guests: () => guestTrend.record(fleet),
      images: keepImages({ fleet, images: customImages, log }),
    },
    log,
  )
  const describe = createDescribe(time)
  webhooks.start(fleet.view, describe)
  const events = new EventHub({ view: fleet.view, describe, ...options.events })
  const fencing = { program: '', arguments: [], timeout_seconds: 20, ...options.fencing }
  const api = createApi({
    fencing,
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
    maintenance,
    gateways,
    time,
    maxBodyBytes: options.maxBodyBytes ?? 65_536,
    policies,
    settings,
    tls,
    metricsFor: options.metricsFor ?? 'loopback_or_key',
    version: '0.0.0-test',
    cliFile: join('dist/gateway', downloadFile),
    ...(options.panelDirectory && { panelDirectory: options.panelDirectory }),
    log,
    isClosing: () => false,
    ...(options.now && { now: options.now }),
  })
  const server = await startHttpServer(api, {
    listen: { host: '127.0.0.1', port: 0 },
    log,
    timeouts: options.timeouts,
  })
  await tls.start(api)
  const client = createApiClient(server, api, adminKey)
  await waitFor(async () => (await client.request('GET', '/dashboard')).status === 200, {
    what: 'the admin key works',
  })
  return {
    fleet,
    api,
    access,
    store,
    upkeep,
    events,
    webhooks,
    fleetUpgrades,
    drains,
    balancing,
    maintenance,
    redis,
    tls,
    url: server.url,
    adminKey,
    request: (...given) => client.request(...given),
    makeKey: (fields) => makeKey(client, fields),
    closeServer: (graceMs) => server.connections.close(graceMs),
    close: async () => {
      events.close()
      client.close()
      api.consoles.closeAll()
      await server.connections.close(1000)
      await tls.close()
      await webhooks.close()
      await fleetUpgrades.close()
      await balancing.close()
      await drains.close()
      await maintenance.close()
      await gateways.close()
      await fleet.close()
      await access.close()
      await store.close()
      await redis.stop()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
}

type Client = ReturnType<typeof createApiClient>

function createApiClient(server: HttpServer, api: Api, adminKey: string) {
  const client = createClient({ maxConnections: 16 })
  const checkResponse = responseCheckOf(api.document)
  return {
    close: () => client.close(),
    async request(
      method: string,
      path: string,
      { key = adminKey, body, headers = {} }: RequestOptions = {},
    ): Promise<Reply> {
      const raw = typeof body === 'string' || Buffer.isBuffer(body)
      const answer = await client.send(server.url + fullPath(path), {
        method,
        headers: {
          ...(key === '' ? {} : { 'x-api-key': key }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: raw ? body : JSON.stringify(body) }),
      })
      const text = await textOf(answer)
      const reply = {
        status: answer.status,
        headers: answer.headers as Record<string, string>,
        text,
        body: parse(text),
      }
      expect(reply.headers['x-request-id'], 'X-Request-Id').to.match(/^[A-Za-z0-9._-]{8,64}$/)
      checkResponse(method, fullPath(path), reply)
      return reply
    },
  }
}

/** Returns the text of a response; "" for an event stream, because a stream does not end by itself. */
async function textOf({ headers, body }: OutboundAnswer): Promise<string> {
  if (!headers['content-type']?.startsWith('text/event-stream')) return readText(body, 2 ** 29)
  body.destroy()
  return ''
}

function fullPath(path: string): string {
  return /^\/(api|docs|healthz|readyz|metrics)(\/|$|\?)/.test(path) ? path : `/api/v1${path}`
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

let keyCount = 0

async function makeKey(client: Client, fields: object): Promise<string> {
  const body = { name: `test-${++keyCount}`, ...fields }
  const { status, body: answer, text } = await client.request('POST', '/api-keys', { body })
  expect(status, text).to.equal(201)
  return (answer as { data: { key: string } }).data.key
}
