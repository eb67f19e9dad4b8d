import { BerthError } from './errors.js'

/*
 * A fence prevents a gateway that was paused or disconnected from continuing work that another gateway has taken over.
 * Each take-over of a lease gets a higher epoch. Every call that is part of the work contains the work's name and the
 * epoch. An agent refuses epochs below the highest epoch that it has seen for this work.
 */

export interface Fence {
  /** Name of the lease that protects the work. */
  readonly work: string
  /** Number that rises each time a gateway takes over the lease; at least 1. */
  readonly epoch: number
}

/** Key of the gRPC metadata that contains a fence. */
export const fenceKey = 'berth-fence'

const pattern = /^([a-z][a-z0-9-]{0,31}) ([1-9]\d{0,14})$/

export function formatFence({ work, epoch }: Fence): string {
  return `${work} ${epoch}`
}

/** @returns undefined if the text is not a fence */
export function parseFence(text: string): Fence | undefined {
  const [, work, epoch] = pattern.exec(text) ?? []
  return work === undefined ? undefined : { work, epoch: Number(epoch) }
}

export type FenceVerdict = 'stale' | 'current' | 'newer'

/** Compares an epoch with `highest`, the highest epoch that an agent has seen for the same work. 0: no epoch so far. */
export function judgeEpoch(highest: number, epoch: number): FenceVerdict {
  if (epoch < highest) return 'stale'
  return epoch === highest ? 'current' : 'newer'
}

/** Error for a call of a gateway that no longer has the lease. The agent has seen a higher epoch. */
export class StaleEpochError extends BerthError {
  /** @param highest the highest epoch that the agent has seen; 0: not known */
  constructor(
    readonly highest: number,
    message: string,
    cause?: unknown,
  ) {
    super('conflict', staleEpochCode, message, { cause })
  }
}

export const staleEpochCode = 'stale_epoch'

export function staleEpoch({ work, epoch }: Fence, highest: number): StaleEpochError {
  return new StaleEpochError(
    highest,
    `another gateway has taken over the lease ${work}: its epoch is ${highest}, the epoch of this request is ${epoch}`,
  )
}
