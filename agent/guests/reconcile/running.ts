import type { Driver, ObservedGuest } from '../../drivers/contract.js'
import type { Machine } from '../../drivers/machine.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { noteAssigned } from '../steps.js'

/** State of a guest at its last check, as texts. Two states are equal if their texts are equal. */
interface Look {
  readonly limits: string
  readonly addresses: string
}

/**
 * Repairs limits and IPv6 addresses of running guests. These can be wrong if an agent was killed before it applied a
 * setting, or if the host refused the rollback of a setting. A guest is checked after each start and each change of its
 * record. At other times, nothing is read from the host.
 */
export class RunningGuests {
  readonly #looks = new Map<string, Look>()

  constructor(private readonly context: Pick<GuestContext, 'store' | 'machines' | 'log'>) {}

  /**
   * Repairs guests, unless a change of settings or an operation is in progress. Refusals of the host are logged.
   * @param running guests that were just observed
   * @returns the repairs
   */
  async ensure(running: readonly ObservedGuest[]): Promise<string[]> {
    const { store } = this.context
    const repairs = running.map(async (observed) => {
      const record = store.find(observed.uuid)
      if (!record || store.mutex.isLocked(record.uuid) || this.#isSeen(lookOf(observed, record), record)) return []
      return store.mutex.run(record.uuid, () => this.#repair(observed))
    })
    return (await Promise.all(repairs)).flat()
  }

  /** Applies newly chosen processors to the given guests. */
  async move(uuids: readonly string[]): Promise<void> {
    for (const uuid of uuids)
      await this.context.store.mutex.run(uuid, async () => {
        const record = this.context.store.find(uuid)
        if (record?.status !== 'running') return
        const machine = this.context.machines.of(record)
        await this.#try('processors', uuid, () => resize(this.context.machines.driverOf(record), machine))
      })
  }

  forget(uuid: string): void {
    this.#looks.delete(uuid)
  }

  #isSeen({ limits, addresses }: Look, { uuid }: GuestRecord): boolean {
    const seen = this.#looks.get(uuid)
    return seen?.limits === limits && seen.addresses === addresses
  }

  async #repair(observed: ObservedGuest): Promise<string[]> {
    const record = this.context.store.find(observed.uuid)
    if (!record || record.status === 'deleting' || record.status === 'error') return []
    const { uuid } = record
    const driver = this.context.machines.driverOf(record)
    const machine = this.context.machines.of(record)
    const look = lookOf(observed, record)
    const seen = this.#looks.get(uuid)
    const resized = await this.#try('limits', uuid, () => resize(driver, machine))
    // Sets the same addresses only once per run of the guest, because its root user may have refused or removed them.
    const assigned =
      seen?.addresses !== look.addresses &&
      (await this.#try('IPv6 addresses', uuid, () => this.#assign(driver, machine)))
    this.#looks.set(uuid, { limits: resized === undefined ? '' : look.limits, addresses: look.addresses })
    const { device } = machine.nic
    return [...(resized ? [`limits of ${device}`] : []), ...(assigned ? [`IPv6 addresses in ${device}`] : [])]
  }

  async #assign(driver: Driver, machine: Machine): Promise<boolean> {
    const result = await driver.assignAddresses(machine, [])
    noteAssigned(this.context.store, machine.uuid, result)
    return result !== 'unchanged'
  }

  /** Runs `work` and logs its failure. @returns undefined if it failed */
  async #try(what: string, guest: string, work: () => Promise<boolean>): Promise<boolean | undefined> {
    try {
      return await work()
    } catch (err) {
      this.context.log.warn({ err, guest }, `could not update the ${what} of a running guest`)
      return undefined
    }
  }
}

/** Applies the guest's limits. @throws if the guest presently uses more than a new limit allows */
async function resize(driver: Driver, machine: Machine): Promise<boolean> {
  const resized = await driver.resize(machine)
  if (resized.outcome === 'refused') throw resized.error
  return resized.changed
}

/** Returns texts that change when the guest is started again, or when its record or IPv6 addresses change. */
function lookOf({ pid, startTime }: ObservedGuest, { revision, ipv6Addresses }: GuestRecord): Look {
  const run = `${pid} ${startTime}`
  return { limits: `${run} ${revision}`, addresses: `${run} ${ipv6Addresses.join(' ')}` }
}
