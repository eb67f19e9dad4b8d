import { createClient } from 'redis'
import { SingleFlight } from '../../../shared/async/single-flight.js'
import { readAccess, type AccessOptions, type RedisAccess, type RedisAddress } from '../redis-access.js'
import { withTimeout } from '../connection.js'
import type { MasterAnswer } from './plan-master.js'

export interface SentinelOptions {
  readonly address: RedisAddress
  readonly masterName: string
  readonly access: RedisAccess
}

const answerTimeoutMs = 500

type SentinelClient = ReturnType<typeof makeClient>

/** The connection to one Sentinel. It is opened for the first question, and again after a failure. */
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
        this.close() // an unanswered question counts like the answer "master not known"
        return undefined
      }
    })
  }

  close(): void {
    this.#client?.destroy()
    this.#client = undefined
  }

  async #ask(): Promise<MasterAnswer> {
    const client = this.#client ?? (await this.#connect())
    const answer = await client.sendCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.options.masterName])
    if (!Array.isArray(answer)) return undefined
    const [host, port] = answer.map(String)
    return { host: host ?? '', port: Number(port) }
  }

  /** `#client` is set before the connection exists, so that `close` can end a hanging attempt to connect. */
  async #connect(): Promise<SentinelClient> {
    const { address, access } = this.options
    const client = makeClient(address, await readAccess(access))
    this.close()
    this.#client = client
    await client.connect()
    return client
  }
}

function makeClient({ host, port }: RedisAddress, { tls, ...login }: AccessOptions) {
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
  client.on('error', () => undefined) // ignored here: the pending question fails with this error too
  return client
}
