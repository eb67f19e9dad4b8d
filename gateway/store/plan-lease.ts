export interface StoredLease {
  /** null: nobody holds the lease. */
  readonly holder: string | null
  /** The highest epoch that any lease has ever got. 0: no lease has got an epoch yet. */
  readonly counter: number
}

export interface LeaseClaim {
  readonly holder: string
  /** Epoch of the lease that this gateway holds. undefined: it holds no lease, or its last claim got no answer. */
  readonly epoch: number | undefined
  /** Highest epoch that an agent has seen. The new epoch is higher, even if the store has lost its latest epochs. */
  readonly above: number
}

/** The lease after the claim. undefined: another gateway holds the lease. */
export interface LeaseGrant {
  readonly epoch: number
  readonly counter: number
}

/**
 * Decides whether a claim gets the lease, and its epoch. A renewal keeps the epoch. Any other grant gets a higher epoch
 * than all earlier grants. If a claim got no answer, the next one gets a new epoch, so that no epoch is used twice.
 */
export function planLease({ holder, counter }: StoredLease, claim: LeaseClaim): LeaseGrant | undefined {
  if (holder !== null && holder !== claim.holder) return undefined
  const isRenewal = holder !== null && claim.epoch !== undefined && claim.epoch > claim.above
  const epoch = isRenewal ? claim.epoch : Math.max(counter, claim.above) + 1
  return { epoch, counter: Math.max(counter, epoch) }
}
