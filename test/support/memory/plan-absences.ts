import { randomFrom } from '../failover/plan-faults.js'

/** One failure of a host until its return. */
export interface Absence {
  /** Index of the host among those that have guests, 0 to 2. Larger numbers begin again with the first host. */
  readonly host: number
  /** Time in ms from the power failure until the first boot. */
  readonly afterMs: number
  /** Number of boots in which the host reaches no gateway, 0 to 2. */
  readonly isolatedBoots: number
  /** Duration of each of these boots in ms. An agent starts lost guests 2 s after its own start. */
  readonly isolatedMs: number
  /** True if an agent that may receive the guests is restarted during the restore. */
  readonly targetRestarts: boolean
}

/** Draws failures of hosts, which depend only on the seed. The hosts return before, during or after the restore. */
export function planAbsences({ count, seed }: { readonly count: number; readonly seed: number }): Absence[] {
  const random = randomFrom(seed)
  const draw = (below: number): number => Math.floor(random() * below)
  return Array.from({ length: count }, () => ({
    host: draw(3),
    afterMs: draw(4) === 0 ? 0 : draw(1500),
    isolatedBoots: draw(3),
    isolatedMs: draw(4000),
    targetRestarts: draw(4) === 0,
  }))
}
