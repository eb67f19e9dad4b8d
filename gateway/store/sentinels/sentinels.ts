import type { RedisAccess, RedisAddress } from '../redis-access.js'
import { planMaster, type MasterAnswer } from './plan-master.js'
import { Sentinel } from './sentinel.js'

export interface SentinelsOptions {
  readonly addresses: readonly RedisAddress[]
  /** Name of the master in the configuration of the Sentinels. */
  readonly masterName: string
  readonly access: RedisAccess
}

/** The Sentinels that know which of the Redis servers is the master. */
export class Sentinels {
  readonly #sentinels: readonly Sentinel[]

  constructor(private readonly options: SentinelsOptions) {
    const { addresses, masterName, access } = options
    this.#sentinels = addresses.map((address) => new Sentinel({ address, masterName, access }))
  }

  /** Returns the master that a majority names. @throws {Error} if no majority of the Sentinels agrees */
  async find(): Promise<RedisAddress> {
    const master = planMaster(await this.ask())
    if (master) return master
    const { addresses, masterName } = this.options
    throw new Error(
      `no majority of the ${addresses.length} Sentinels named the same address for the master ${masterName}`,
    )
  }

  /**
   * Asks all Sentinels. Resolves as soon as a majority agrees, or all have answered or failed.
   * @returns one entry for each Sentinel
   */
  ask(): Promise<readonly MasterAnswer[]> {
    const answers: MasterAnswer[] = this.#sentinels.map(() => undefined)
    let pending = answers.length
    return new Promise((resolve) => {
      for (const [index, sentinel] of this.#sentinels.entries())
        void sentinel.ask().then((answer) => {
          answers[index] = answer
          if (--pending === 0 || planMaster(answers)) resolve(answers)
        })
    })
  }

  close(): void {
    for (const sentinel of this.#sentinels) sentinel.close()
  }
}
