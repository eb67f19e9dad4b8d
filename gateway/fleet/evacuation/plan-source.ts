import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { EvacuatedBackup, UsableStandby } from '../move-contract.js'
import type { Preference } from '../placement/placement.js'

/** The sources from which a guest of a failed host can be restored. */
export interface EvacuationSource {
  readonly backup: EvacuatedBackup | undefined
  readonly standby: UsableStandby | undefined
  /** True if the standby is newer than the backup. */
  readonly prefersStandby: boolean
}

/**
 * Chooses the newest backup, and decides whether the standby is used instead.
 * @param unusable ids of backups, standbys and hosts that are only chosen if there is nothing else
 */
export function planSource(
  backups: Guest['backups'],
  standby: UsableStandby | undefined,
  unusable: readonly string[] = [],
): EvacuationSource {
  const sorted = backups.toSorted((a, b) => b.createdAtMs - a.createdAtMs)
  const newest = sorted.find(({ id }) => !unusable.includes(id)) ?? sorted[0]
  const backup = newest && { targetId: newest.targetId, backupId: newest.id, createdAtMs: newest.createdAtMs }
  const isUnusable = standby && (unusable.includes(standby.standbyId) || unusable.includes(standby.hostId))
  const isNewer = standby !== undefined && (!backup || (standby.takenAtMs > backup.createdAtMs && !isUnusable))
  return { backup, standby, prefersStandby: isNewer }
}

/** The host of a standby is chosen if possible. Another host needs a backup. */
export function preferenceOf({ backup, standby, prefersStandby }: EvacuationSource): Preference {
  return prefersStandby ? { toHostId: standby!.hostId, orElsewhere: backup !== undefined } : {}
}

/** True if the guest is started from its standby on this target. */
export function isFromStandby({ standby, prefersStandby }: EvacuationSource, toHostId: string): boolean {
  return prefersStandby && standby?.hostId === toHostId
}

/** Names the standby or the backup for a restore on this host. */
export function namesOf(source: EvacuationSource, toHostId: string) {
  if (isFromStandby(source, toHostId)) return { targetId: '', backupId: '', standbyId: source.standby!.standbyId }
  return { targetId: source.backup!.targetId, backupId: source.backup!.backupId }
}
