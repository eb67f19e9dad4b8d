import type { ArrivalsParts } from './arrival-details.js'
import { ArrivalReservations } from './arrival-reservations.js'
import { LiveArrivals } from './live-target.js'
import { OwnerDecisions } from './owner-decisions.js'
import { ReceivedGuests } from './received-guests.js'

/** Handles guests that other hosts send to this host, from the reservation to the gateway's decision on the owner. */
export interface Arrivals {
  readonly reservations: ArrivalReservations
  readonly received: ReceivedGuests
  readonly live: LiveArrivals
  readonly decisions: OwnerDecisions
}

export function openArrivals(parts: ArrivalsParts): Arrivals {
  const live = new LiveArrivals(parts.context)
  return {
    reservations: new ArrivalReservations(parts, live),
    received: new ReceivedGuests(parts, live),
    live,
    decisions: new OwnerDecisions(parts, live),
  }
}
