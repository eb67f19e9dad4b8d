import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { open, seal } from '../../shared/sealing.js'

/** Encrypts targets for the journal. A sealed target is useless for another guest or check. */
export interface TargetVault {
  /** @param context subject of the operation: a guest's uuid */
  readonly sealTarget: (context: string, target: BackupTarget) => string
  readonly openTarget: (context: string, sealed: string) => BackupTarget
}

export function targetVault(key: Buffer): TargetVault {
  const aboutOf = (context: string): string => `backup ${context}`
  return {
    sealTarget: (context, target) => seal(key, JSON.stringify(target), aboutOf(context)),
    openTarget: (context, sealed) => JSON.parse(open(key, sealed, aboutOf(context))) as BackupTarget,
  }
}
