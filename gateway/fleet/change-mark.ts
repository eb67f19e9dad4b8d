/**
 * Position of a change in one sequence of changes. All gateways number a sequence in the same way, since its numbers
 * come from the agent or from the store.
 */
export interface ChangeMark {
  /** Name of the sequence, see the functions below. It begins with the id of the host and a slash. */
  readonly lane: string
  readonly revision: number
  /** True for a change in a complete report of a host, in which changes are not ordered by revision. */
  readonly isPartial?: true
  /** True if this gateway does not know the changes of the sequence before this position. */
  readonly isGap?: true
}

/** Maximum length of a journal's identity in the name of a lane: agents choose the identity. */
const epochLength = 64

/** Changes of guests, tasks and alerts, numbered by the journal of the agent. */
export function journalLane(hostId: string, epoch: string): string {
  return `${hostId}/journal/${epoch.slice(0, epochLength)}`
}

/** Changes of the stored record of a host, numbered by the version of the record. */
export function recordLane(hostId: string): string {
  return `${hostId}/record`
}

/** Samples of the usage of a host. The number is the time of the sample. */
export function usageLane(hostId: string): string {
  return `${hostId}/usage`
}

/** Removal of a host from the fleet: first 1 for its guests, then 2 for the host. */
export function removalLane(hostId: string): string {
  return `${hostId}/removed`
}

/** Connection of this gateway to a host. The number is 1 or 0, for online or offline. */
export function onlineLane(hostId: string): string {
  return `${hostId}/online`
}

/** Kind of a lane: the word after the id of the host. */
export function kindOfLane(lane: string): string {
  return lane.split('/')[1] ?? ''
}

export function hostOfLane(lane: string): string {
  return lane.slice(0, lane.indexOf('/'))
}
