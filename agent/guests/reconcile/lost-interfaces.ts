import { readInterfaces } from '../../host/net/interfaces.js'
import { deviceName } from '../../network/addresses/private-ipv4.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'

/** Time in ms after which a missing interface counts as lost. A reboot of the guest takes less time. */
const settledMs = 1500

/** Restores interfaces on the host that were deleted while their guest runs. */
export class LostInterfaces {
  /** Time in ms at which the interface of a guest was first found missing, by the guest's uuid. */
  #missing = new Map<string, number>()
  /** Guests whose interface could not be created again and is still missing. */
  readonly #failed = new Set<string>()

  constructor(
    private readonly context: GuestContext,
    private readonly isBusy: (uuid: string) => boolean,
  ) {}

  /** Warnings for an operator: one for each guest whose interface could not be created again. */
  get warnings(): string[] {
    return [...this.#failed].flatMap((uuid) => {
      const record = this.context.store.find(uuid)
      return record ? [`guest ${record.name} has lost its interface ${this.#deviceOf(record)}: restart the guest`] : []
    })
  }

  /** Creates interfaces that have been missing for a while. @returns the repairs */
  async ensure(): Promise<string[]> {
    const there = readInterfaces()
    const lost = this.context.store
      .list()
      .filter((record) => record.status === 'running' && !there.has(this.#deviceOf(record)))
    const nowMs = performance.now()
    this.#missing = new Map(lost.map(({ uuid }) => [uuid, this.#missing.get(uuid) ?? nowMs]))
    for (const uuid of this.#failed) if (!this.#missing.has(uuid)) this.#failed.delete(uuid)
    const due = lost.filter(({ uuid }) => nowMs - this.#missing.get(uuid)! >= settledMs)
    return (await Promise.all(due.map((record) => this.#connect(record)))).flat()
  }

  async #connect({ uuid }: GuestRecord): Promise<string[]> {
    const { store, log } = this.context
    if (this.#failed.has(uuid) || this.isBusy(uuid) || store.mutex.isLocked(uuid)) return []
    try {
      return await store.mutex.run(uuid, async () => {
        const record = store.find(uuid)
        if (record?.status !== 'running') return []
        const machine = this.context.machines.of(record)
        return (await this.context.machines.driverOf(record).connect(machine))
          ? [`interface ${machine.nic.device}`]
          : []
      })
    } catch (err) {
      this.#failed.add(uuid)
      log.warn({ err, guest: uuid }, 'could not recreate a lost network interface')
      return []
    }
  }

  #deviceOf({ id }: GuestRecord): string {
    return deviceName(this.context.config.network.interface_prefix, id)
  }
}
