import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAdminKey } from '../../../gateway/access/bootstrap.js'
import { GatewayConfigSchema } from '../../../gateway/config.js'
import { startGateway } from '../../../gateway/gateway.js'
import { validateConfig } from '../../../shared/config.js'
import { freePort } from '../ports.js'
import { waitFor } from '../wait.js'
import { apiCall, type ApiReply } from './api-call.js'
import { silentLog } from './redis.js'

/** The complete gateway in this process, on the Redis servers of a lab. */
export class FailoverGateway {
  private constructor(
    readonly url: string,
    private readonly adminKey: string,
    readonly close: () => Promise<void>,
  ) {}

  /** @param redis section `redis` of gateway.yaml */
  static async start(redis: Record<string, unknown>): Promise<FailoverGateway> {
    const directory = await mkdtemp(join(tmpdir(), 'btest-failover-'))
    const keyFile = join(directory, 'admin.key')
    await createAdminKey(directory, keyFile)
    const port = await freePort()
    const config = validateConfig(
      GatewayConfigSchema,
      {
        state_dir: directory,
        run_dir: directory,
        listen: `127.0.0.1:${port}`,
        join_listen: '127.0.0.1:0',
        tls_listen: '',
        http_listen: '',
        redis,
      },
      'test',
    )
    const stop = await startGateway({ config, redisUrl: '', version: '0.0.0', log: silentLog })
    const close = async (): Promise<void> => {
      await stop()
      await rm(directory, { recursive: true })
    }
    const gateway = new FailoverGateway(`http://127.0.0.1:${port}`, (await readFile(keyFile, 'utf8')).trim(), close)
    await waitFor(async () => (await gateway.request('GET', '/api-keys')).status === 200, {
      what: 'the admin key works',
    })
    return gateway
  }

  /** Sends one request as the administrator. @param path relative to /api/v1 */
  async request(
    method: string,
    path: string,
    options: { body?: object; headers?: Record<string, string> } = {},
  ): Promise<ApiReply> {
    const { body, headers = {} } = options
    return apiCall(this.url, [method, `/api/v1${path}`], {
      headers: { 'x-api-key': this.adminKey, 'content-type': 'application/json', ...headers },
      ...(body && { body: JSON.stringify(body) }),
    })
  }

  /** Creates an API key, with an Idempotency-Key that depends on its name. @returns true if the key exists now */
  async createKey(name: string): Promise<boolean> {
    const body = { name, scopes: ['container:read'] }
    const { status } = await this.request('POST', '/api-keys', { body, headers: { 'idempotency-key': name } })
    if (status === 201) return true
    // 409 means that an earlier attempt with the same idempotency key has not finished.
    if (![409, 500, 503, 504].includes(status)) throw new Error(`creating a key was answered with ${status}`)
    return false
  }

  async keyNames(): Promise<string[]> {
    const { body } = await this.request('GET', '/api-keys')
    return (body.data as { name: string }[]).map(({ name }) => name)
  }

  async metrics(): Promise<string> {
    const reply = await fetch(`${this.url}/metrics`)
    return reply.text()
  }
}
