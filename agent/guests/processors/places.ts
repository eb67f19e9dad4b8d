import type { GuestRecord } from '../record/record.js'
import { countOf, planMove, planPlace, shareOf, type Place } from './plan-places.js'

/** Maximum number of guests that one call of `balance` moves to spread the load. */
const movesAtOnce = 16

type PlacedGuest = Pick<GuestRecord, 'uuid' | 'wanted'> & {
  readonly spec: { readonly limits: Pick<GuestRecord['spec']['limits'], 'vcpuMilli'> }
}

/**
 * Assigns processors to guests that should run. After a restart of the agent, `adopt` takes over the processors that
 * running guests already have.
 */
export class ProcessorPlaces {
  readonly #places = new Map<string, Place>()
  readonly #loads = new Map<number, number>()

  #online: readonly number[]

  /** @param readOnline returns the processors that guests are allowed to use now, in ascending order */
  constructor(private readonly readOnline: () => readonly number[]) {
    this.#online = readOnline()
  }

  /** Keeps the processors of guests that were already running at the agent's start. */
  adopt(found: ReadonlyMap<string, readonly number[]>, records: readonly PlacedGuest[]): void {
    for (const { uuid, wanted, spec } of records) {
      const cpus = found.get(uuid)?.filter((cpu) => this.#online.includes(cpu))
      const { vcpuMilli } = spec.limits
      if (wanted === 'running' && cpus?.length === countOf(vcpuMilli, this.#online))
        this.#put(uuid, { cpus, vcpuMilli })
    }
  }

  /**
   * Returns the processors of a guest. For a guest that should run, chooses new processors only if the number of its
   * processors has changed. A guest that should not run adds no load to its processors.
   */
  cpusOf({ uuid, wanted, spec: { limits } }: PlacedGuest): readonly number[] {
    const known = this.#places.get(uuid)
    const { vcpuMilli } = limits
    if (known && wanted === 'running' && known.cpus.length === countOf(vcpuMilli, this.#online)) {
      if (known.vcpuMilli !== vcpuMilli) this.#put(uuid, { ...known, vcpuMilli })
      return known.cpus
    }
    this.forget(uuid)
    const place = planPlace(vcpuMilli, this.#online, this.#loads)
    if (wanted === 'running') this.#put(uuid, place)
    return place.cpus
  }

  forget(uuid: string): void {
    const known = this.#places.get(uuid)
    if (!known) return
    this.#places.delete(uuid)
    this.#add(known, -1)
  }

  /**
   * Moves guests between processors to balance the load. Called after guests or the host's processors changed.
   * @returns uuids of the moved guests
   */
  balance(): string[] {
    const moved = new Set(this.#followHost())
    for (let left = movesAtOnce; left > 0; left--) {
      const move = planMove(this.#places, this.#online, this.#loads)
      if (!move) break
      this.#put(move.uuid, move.place)
      moved.add(move.uuid)
    }
    return [...moved]
  }

  /**
   * After a change of the host's processors, chooses new processors for guests that have an offline processor or a
   * wrong number of processors. @returns uuids of these guests
   */
  #followHost(): string[] {
    const online = this.readOnline()
    if (online.join() === this.#online.join()) return []
    this.#online = online
    const wrong = [...this.#places].filter(
      ([, { cpus, vcpuMilli }]) =>
        cpus.length !== countOf(vcpuMilli, online) || cpus.some((cpu) => !online.includes(cpu)),
    )
    for (const [uuid] of wrong) this.forget(uuid)
    for (const [uuid, { vcpuMilli }] of wrong) this.#put(uuid, planPlace(vcpuMilli, online, this.#loads))
    return wrong.map(([uuid]) => uuid)
  }

  #put(uuid: string, place: Place): void {
    this.forget(uuid)
    this.#places.set(uuid, place)
    this.#add(place, 1)
  }

  #add(place: Place, sign: 1 | -1): void {
    for (const cpu of place.cpus) this.#loads.set(cpu, (this.#loads.get(cpu) ?? 0) + sign * shareOf(place))
  }
}
