import { singleServer, type StoreServer } from './connection.js'
import { readAccess, type RedisAccess, type RedisAddress } from './redis-access.js'
import { isSameAddress, planLeave, planMaster, planWitness } from './sentinels/plan-master.js'
import { Sentinels, type SentinelsOptions } from './sentinels/sentinels.js'

export interface ServerOptions {
  /** URL of the server: `redis://`, `rediss://` or `unix:///path`. It is not used if there are Sentinels. */
  readonly url: string
  /** Login and TLS settings. Default: as the URL states them. */
  readonly access?: RedisAccess | undefined
  /** Sentinels that name the master. Default: the server is always the same. */
  readonly sentinels?: SentinelsOptions | undefined
  /** Number of replicas that must confirm each write before it counts as done. Default: 0. */
  readonly confirmingReplicas?: number | undefined
}

/** Time limit in ms of an answer of a master. It is short, because the Sentinels can soon choose another master. */
const masterTimeoutMs = 1200

/** Finds the Redis server to which this gateway connects, and notices when another server has taken its place. */
export class ServerFinder {
  readonly #sentinels: Sentinels | undefined
  #current: RedisAddress | undefined
  #witnessedMs = 0
  #confirmedMs = 0
  /** Number of times since the start of the process that another server became the master. */
  failovers = 0

  constructor(private readonly options: ServerOptions) {
    this.#sentinels = options.sentinels && new Sentinels(options.sentinels)
  }

  get replicas(): number {
    return this.options.confirmingReplicas ?? 0
  }

  /** @throws {Error} if no majority of the Sentinels agrees, or a password or certificate file cannot be read */
  async find(): Promise<StoreServer> {
    const access = this.options.access ? await readAccess(this.options.access) : {}
    const confirms = this.replicas > 0
    if (!this.#sentinels) return { ...singleServer(this.options.url, access), confirms }
    const at = await this.#sentinels.find()
    return { at, access, answerTimeoutMs: masterTimeoutMs, mustBeMaster: true, confirms }
  }

  /** Records that this gateway is now connected to this Redis server. */
  use({ at }: StoreServer): void {
    if (typeof at === 'string') return
    if (this.#current && !isSameAddress(this.#current, at)) this.failovers++
    this.#current = at
    this.#witnessedMs = performance.now()
  }

  /** Records that a replica has confirmed a write to the current master. */
  noteConfirmed(): void {
    this.#confirmedMs = performance.now()
  }

  /** Asks the Sentinels for the master. @returns why this gateway must leave its present server; "": no reason */
  async check(): Promise<string> {
    const current = this.#current
    if (!this.#sentinels || !current) return ''
    const answers = await this.#sentinels.ask()
    const nowMs = performance.now()
    const witnessedMs = planWitness({ answers, current, nowMs, confirmedMs: this.#confirmedMs })
    this.#witnessedMs = Math.max(this.#witnessedMs, witnessedMs)
    return planLeave({ answer: planMaster(answers), current, unwitnessedMs: nowMs - this.#witnessedMs })
  }

  close(): void {
    this.#sentinels?.close()
  }
}
