import { cpSync, rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readText } from '../../../shared/outbound-request.js'
import { createClient } from '../ask.js'
import { SlowLine } from '../slow-line.js'
import { waitFor } from '../wait.js'
import { checkAnswer } from './api-call.js'
import { GatewayProcess } from './gateway-process.js'
import { startTestRedis, type TestRedis } from './redis.js'
import type { Reply, RequestOptions } from './test-gateway.js'

/** One of several gateways on the same Redis. */
export interface GroupMember {
  readonly url: string
  readonly process: GatewayProcess
  /** Sends a request. @param path relative to /api/v1 */
  request(method: string, path: string, options?: RequestOptions): Promise<Reply>
  disconnect(): void
}

/** Several gateway processes that share a Redis server, a CA and a secret. */
export class GatewayGroup {
  private constructor(
    readonly members: readonly GroupMember[],
    readonly directory: string,
    private readonly redis: TestRedis,
    /** The last gateway's connection to Redis, which a test can slow down. */
    readonly slowLine: SlowLine,
  ) {}

  /** @param slowMs delay with which the last gateway learns of changes. Default: 0 */
  static async start(count: number, { slowMs = 0 } = {}): Promise<GatewayGroup> {
    const directory = await mkdtemp(join(tmpdir(), 'btest-group-'))
    const redis = await startTestRedis()
    const slowLine = await SlowLine.toRedis(redis.url, slowMs)
    const processes: GatewayProcess[] = []
    for (let index = 0; index < count; index++) {
      const url = index === count - 1 ? `redis://${slowLine.address}` : redis.url
      processes.push(await createGateway(join(directory, String(index)), url, processes[0]))
    }
    const [first] = processes
    const members = processes.map((process) => memberOf(process, first!.adminKey))
    for (const { process } of members) process.start()
    for (const member of members)
      await waitFor(async () => (await member.request('GET', '/dashboard').catch(() => undefined))?.status === 200, {
        what: () => `gateway ready\n${member.process.logTail()}`,
      })
    return new GatewayGroup(members, directory, redis, slowLine)
  }

  async close(): Promise<void> {
    for (const member of this.members) {
      member.disconnect()
      await member.process.kill('SIGTERM')
    }
    this.slowLine.close()
    await this.redis.stop()
    await rm(this.directory, { recursive: true, force: true })
  }
}

async function createGateway(directory: string, redisUrl: string, first?: GatewayProcess): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.create(directory, '127.0.0.1', {
    tls_listen: '',
    http_listen: '',
    redis: { url: redisUrl },
    limits: { auth_failures_per_minute: 1_000_000 },
  })
  if (first) shareState(first.directory, directory)
  return gateway
}

/** Copies the secret and the CA of the first gateway. */
function shareState(from: string, to: string): void {
  rmSync(join(to, 'state'), { recursive: true })
  for (const shared of ['secret', 'pki'])
    cpSync(join(from, 'state', shared), join(to, 'state', shared), { recursive: true, preserveTimestamps: true })
}

function memberOf(process: GatewayProcess, adminKey: string): GroupMember {
  const { url } = process
  const client = createClient({ maxConnections: 16 })
  return {
    url,
    process,
    request: async (method, path, { key = adminKey, body, headers = {} } = {}) => {
      const answer = await client.send(`${url}/api/v1${path}`, {
        method,
        headers: {
          ...(key === '' ? {} : { 'x-api-key': key }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await readText(answer.body, 2 ** 24)
      const reply = {
        status: answer.status,
        headers: answer.headers as Record<string, string>,
        text,
        body: JSON.parse(text),
      }
      await checkAnswer(url, [method, `/api/v1${path}`], reply)
      return reply
    },
    disconnect: () => client.close(),
  }
}
