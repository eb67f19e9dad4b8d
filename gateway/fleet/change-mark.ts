/**
 * Position of a change in one sequence of changes. All gateways number a sequence in the same way, since its numbers
 * come from the agent or from the store.
 */
export interface ChangeMark {
  /** Name of the sequence ("lane"), as the functions below return it. It begins with the id of the host and a slash. */
  readonly lane: string
  readonly revision: number
  /** True for a change in a complete report of a host, in which changes are not ordered by revision. */
  readonly isPartial?: true
  /** True if this gateway does not know the changes of the sequence before this position. */
  readonly isGap?: true
}

/** Maximum length of a journal's identity in the name of a sequence. Agents choose the identity. */
const epochLength = 64

/** Sequence of the changes of guests, tasks and alerts. Their numbers are revisions of the agent's journal. */
export function journalLane(hostId: string, epoch: string): string {
  return `${hostId}/journal/${epoch.slice(0, epochLength)}`
}

/** Sequence of the changes of a host's stored record. Their numbers are versions of the record. */
export function recordLane(hostId: string): string {
  return `${hostId}/record`
}

/** Sequence of the samples of a host's usage. The numbers are the times of the samples. */
export function usageLane(hostId: string): string {
  return `${hostId}/usage`
}

/** Sequence for the removal of a host. Change 1 removes the host's guests, and change 2 removes the host. */
export function removalLane(hostId: string): string {
  return `${hostId}/removed`
}

/**
 * Name of the sequence of changes of this gateway's connection to a host. A change to online always has the number 1,
 * a change to offline the number 0.
 */
export function onlineLane(hostId: string): string {
  return `${hostId}/online`
}

/** Returns the kind of a sequence: the word after the id of the host. */
export function kindOfLane(lane: string): string {
  return lane.split('/')[1] ?? ''
}

export function hostOfLane(lane: string): string {
  return lane.slice(0, lane.indexOf('/'))
}
