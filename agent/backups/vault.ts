import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { open, seal } from '../../shared/sealing.js'

/** Targets as the journal keeps them: encrypted, and of no use for another guest or check. */
export interface TargetVault {
  /** @param context what the operation is about: a guest's uuid */
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
