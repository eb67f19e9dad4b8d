import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { open, seal } from '../../shared/sealing.js'

/** Encrypts backup targets for storage. Decryption needs the `context` (such as a guest's uuid) of the encryption. */
export class TargetVault {
  constructor(private readonly key: Buffer) {}

  /** @param context id for which the target is stored, for example a guest's uuid; `open` needs the same id */
  seal(context: string, target: BackupTarget): string {
    return seal(this.key, JSON.stringify(target), aboutOf(context))
  }

  open(context: string, sealed: string): BackupTarget {
    return JSON.parse(open(this.key, sealed, aboutOf(context))) as BackupTarget
  }
}

function aboutOf(context: string): string {
  return `backup ${context}`
}
