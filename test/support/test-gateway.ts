import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Logger } from 'pino'
import { Agent, request as send, type Dispatcher } from 'undici'
import { createAccess, noLimits, type Access, type LimitOptions } from '../../gateway/access/access.js'
import { createAdminKey } from '../../gateway/access/bootstrap.js'
import { BackupTargets } from '../../gateway/backups/targets.js'
import type { MetricsReaders } from '../../gateway/http/health.js'
import { AccessPolicies } from '../../gateway/policy/access-policy.js'
import { PanelSettings } from '../../gateway/panel-settings.js'
import { createApi, type Api } from '../../gateway/api/create-api.js'
import { startHttpServer, type HttpServer, type HttpTimeouts } from '../../gateway/server.js'
import { Store } from '../../gateway/store/store.js'
import { readOrCreateKey } from '../../shared/sealing.js'
import { createTimeFormat } from '../../shared/time.js'
import { createResponseCheck } from './openapi-check.js'
import type { Body } from './body.js'
import { silentLog, startTestRedis, type TestRedis } from './redis.js'
import { LabFleet } from './lab-fleet.js'
import { waitFor } from './wait.js'

export interface Reply {
  readonly status: number
  readonly headers: Record<string, string>
  readonly text: string
  /** The parsed body; `undefined` when it is no JSON. */
  readonly body: Body
}

export interface RequestOptions {
  /** Default: the administrator's. "" sends none. */
  key?: string
  /** Sent as JSON unless a string or Buffer. */
  body?: unknown
  headers?: Record<string, string>
}

/** The real HTTP interface, access control and Redis, with a fleet of real agents whose hosts are in memory. */
export interface TestGateway {
  readonly fleet: LabFleet
  readonly api: Api
  readonly access: Access
  readonly store: Store
  readonly redis: TestRedis
  readonly url: string
  readonly adminKey: string
  /** `path` is relative to /api/v1 unless it starts with /api or names a page. Checked against the document. */
  request(method: Dispatcher.HttpMethod, path: string, options?: RequestOptions): Promise<Reply>
  makeKey(fields: { scopes?: string[]; container_uuids?: string[]; name?: string }): Promise<string>
  /** The HTTP server alone, as at shutdown. */
  closeServer(graceMs: number): Promise<void>
  close(): Promise<void>
}

export interface TestGatewayOptions {
  readonly maxBodyBytes?: number
  readonly trustedProxies?: readonly string[]
  readonly timeouts?: HttpTimeouts
  readonly log?: Logger
  /** Default: `host-a` alone. */
  readonly hosts?: readonly string[]
  /** Of each agent's agent.yaml. */
  readonly agentConfig?: Record<string, unknown>
  /** Default: none. */
  readonly limits?: Partial<LimitOptions>
  readonly metricsFor?: MetricsReaders
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
  store.start()
  access.start()
  await waitFor(() => store.ready(), { what: 'store connected' })
  const fleet = await LabFleet.start({
    store,
    stateDir,
    log: silentLog,
    ...(options.hosts && { hosts: options.hosts }),
    ...(options.agentConfig && { agentConfig: options.agentConfig }),
  })
  const api = createApi({
    fleet,
    access,
    backupTargets: new BackupTargets(store, secret),
    time: createTimeFormat('UTC'),
    maxBodyBytes: options.maxBodyBytes ?? 65_536,
    ...{ policies, settings },
    metricsFor: options.metricsFor ?? 'loopback_or_key',
    version: '0.0.0-test',
    log,
    isClosing: () => false,
  })
  const server = await startHttpServer(api.app, { host: '127.0.0.1', port: 0 }, log, options.timeouts)
  const client = createClient(server, api, adminKey)
  await waitFor(async () => (await client.request('GET', '/dashboard')).status === 200, {
    what: 'the admin key works',
  })
  return {
    ...{ fleet, api, access, store, redis, url: server.url, adminKey },
    request: (...given) => client.request(...given),
    makeKey: (fields) => makeKey(client, fields),
    closeServer: (graceMs) => server.close(graceMs),
    close: async () => {
      await client.close()
      await server.close(1000)
      await fleet.close()
      await access.close()
      await store.close()
      await redis.stop()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
}

type Client = ReturnType<typeof createClient>

function createClient(server: HttpServer, api: Api, adminKey: string) {
  const agent = new Agent({ connections: 16 })
  const checkResponse = createResponseCheck(api.document)
  return {
    close: () => agent.close(),
    async request(
      method: Dispatcher.HttpMethod,
      path: string,
      { key = adminKey, body, headers = {} }: RequestOptions = {},
    ): Promise<Reply> {
      const raw = typeof body === 'string' || Buffer.isBuffer(body)
      const response = await send(server.url + fullPath(path), {
        method,
        dispatcher: agent,
        headers: {
          ...(key === '' ? {} : { 'x-api-key': key }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: raw ? body : JSON.stringify(body) }),
      })
      const text = await response.body.text()
      const reply = {
        status: response.statusCode,
        headers: response.headers as Record<string, string>,
        text,
        body: parse(text),
      }
      expect(reply.headers['x-request-id'], 'X-Request-Id').to.match(/^[A-Za-z0-9._-]{8,64}$/)
      checkResponse(method, fullPath(path), reply)
      return reply
    },
  }
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
