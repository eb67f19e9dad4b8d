import { createClient } from 'redis'
import { SingleFlight } from '../../../shared/async/single-flight.js'
import { readAccess, type RedisAccess, type RedisAddress } from '../redis-access.js'
import { withTimeout } from '../connection.js'
import type { MasterAnswer } from './plan-master.js'

export interface SentinelOptions {
  readonly address: RedisAddress
  readonly masterName: string
  readonly access: RedisAccess
}

const answerTimeoutMs = 500

type SentinelClient = Awaited<ReturnType<typeof connectSentinel>>

/** The connection to one Sentinel. It is opened by the first question, and again after a failure. */
export class Sentinel {
  #client: SentinelClient | undefined
  readonly #asking = new SingleFlight<MasterAnswer>()

  constructor(private readonly options: SentinelOptions) {}

  /** Asks for the address of the master. Never rejects. */
  ask(): Promise<MasterAnswer> {
    return this.#asking.run(async () => {
      try {
        return await withTimeout(answerTimeoutMs, this.#ask())
      } catch {
        this.close() // a Sentinel that is away counts as one without an opinion
        return undefined
      }
    })
  }

  close(): void {
    this.#client?.destroy()
    this.#client = undefined
  }

  async #ask(): Promise<MasterAnswer> {
    this.#client ??= await connectSentinel(this.options)
    const answer = await this.#client.sendCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.options.masterName])
    if (!Array.isArray(answer)) return undefined
    const [host, port] = answer.map(String)
    return { host: host ?? '', port: Number(port) }
  }
}

async function connectSentinel({ address: { host, port }, access }: SentinelOptions) {
  const { tls, ...login } = await readAccess(access)
  const client = createClient({
    ...login,
    RESP: 3,
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    disableClientInfo: true,
    commandOptions: { timeout: 0 },
    socket: {
      host,
      port,
      connectTimeout: answerTimeoutMs,
      reconnectStrategy: false,
      ...(tls && { tls: true, ...tls }),
    },
  })
  client.on('error', () => undefined) // the pending question fails with the same error
  await client.connect()
  return client
}
