import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readText } from '../../../shared/outbound-request.js'
import { createClient } from '../ask.js'
import { SlowLine } from '../slow-line.js'
import { waitFor } from '../wait.js'
import { checkAnswer } from './api-call.js'
import { GatewayProcess, shareState } from './gateway-process.js'
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
    readonly redis: TestRedis,
    /** The last gateway's connection to Redis, which a test can slow down. */
    readonly slowLine: SlowLine,
  ) {}

  /** @param slowMs delay with which the last gateway learns of changes. Default: 0 @param limits values of `limits` */
  static async start(count: number, { slowMs = 0, limits = {} } = {}): Promise<GatewayGroup> {
    const directory = await mkdtemp(join(tmpdir(), 'btest-group-'))
    const redis = await startTestRedis()
    const slowLine = await SlowLine.toRedis(redis.url, slowMs)
    const members: GroupMember[] = []
    const group = new GatewayGroup(members, directory, redis, slowLine)
    try {
      for (let index = 0; index < count; index++) {
        const url = index === count - 1 ? `redis://${slowLine.address}` : redis.url
        members.push(await createMember(join(directory, String(index)), { url, limits }, members[0]?.process))
      }
      await group.#startMembers()
      return group
    } catch (error) {
      await group.close()
      throw error
    }
  }

  async #startMembers(): Promise<void> {
    for (const { process } of this.members) process.start()
    for (const member of this.members)
      await waitFor(async () => (await member.request('GET', '/dashboard').catch(() => undefined))?.status === 200, {
        what: () => `gateway ready\n${member.process.logTail()}`,
      })
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

async function createMember(
  directory: string,
  { url, limits }: { readonly url: string; readonly limits: object },
  first?: GatewayProcess,
): Promise<GroupMember> {
  const gateway = await GatewayProcess.create(directory, '127.0.0.1', {
    tls_listen: '',
    http_listen: '',
    redis: { url },
    limits: { auth_failures_per_minute: 1_000_000, ...limits },
  })
  if (first) shareState(first, gateway)
  return memberOf(gateway, (first ?? gateway).adminKey)
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
