/**
 * Position of a change in one sequence of changes. All gateways number a sequence in the same way, because its numbers
 * come from the agent or from the store.
 */
export interface ChangeMark {
  /** Name ("lane") of the sequence of changes to which `revision` belongs. It begins with the host's id and a slash. */
  readonly lane: string
  readonly revision: number
  /** True for a change from a complete report of a host. Changes with lower revisions can follow in such a report. */
  readonly isPartial?: true
  /** True if this gateway has missed changes that come before this one in the sequence. */
  readonly isGap?: true
}

/** Maximum length of a journal's identity in the name of a sequence. The agent could send a longer identity. */
const epochLength = 64

/** Name of the sequence with changes of guests, tasks and alerts. Its numbers are revisions of the agent's journal. */
export function journalLane(hostId: string, epoch: string): string {
  return `${hostId}/journal/${epoch.slice(0, epochLength)}`
}

/** Name of the sequence with the changes of a host's stored record. Its numbers are versions of the record. */
export function recordLane(hostId: string): string {
  return `${hostId}/record`
}

/** Name of the sequence with the samples of a host's usage. Its numbers are the times of the samples. */
export function usageLane(hostId: string): string {
  return `${hostId}/usage`
}

/** Name of the sequence for the removal of a host. Change 1 removes the host's guests, and change 2 the host. */
export function removalLane(hostId: string): string {
  return `${hostId}/removed`
}

/**
 * Name of the sequence with the changes of this gateway's connection to a host. A change to online always has the
 * number 1, a change to offline the number 0.
 */
export function onlineLane(hostId: string): string {
  return `${hostId}/online`
}

/** Returns the kind of a lane (a sequence of changes): the word after the host's id. */
export function kindOfLane(lane: string): string {
  return lane.split('/')[1] ?? ''
}

export function hostOfLane(lane: string): string {
  return lane.slice(0, lane.indexOf('/'))
}
