import type { Logger } from 'pino'
import type { BackupServiceServer } from '../../proto/gen/berth/agent/v1/backup.js'
import { checkBackupTarget } from '../../shared/backup-target-rules.js'
import { BerthError, conflict } from '../../shared/errors.js'
import type { BackupRepositories } from '../backups/contract.js'
import { parseUuid } from '../guests/create/parse-create.js'
import { decodeSettings } from '../guests/snapshots/backup-settings.js'
import { unary } from './unary.js'

export interface BackupServiceParts {
  readonly backups: BackupRepositories
  readonly log: Logger
}

/** Timeout in ms of listing backups at a target. */
const listTimeoutMs = 60_000

export function createBackupService({ backups, log }: BackupServiceParts): BackupServiceServer {
  return {
    listBackups: unary(log, 'list backups', async ({ target, uuid }) => {
      if (!target) throw new BerthError('invalid', 'missing_field', 'target: is required', { field: 'target' })
      checkBackupTarget(target)
      const signal = AbortSignal.timeout(listTimeoutMs)
      const at = { target, guest: parseUuid('uuid', uuid) }
      const found = await backups.list(at, { signal, report: () => undefined }).catch((error: unknown) => {
        if (!signal.aborted) throw error
        throw conflict('backup_target_unreachable', 'the backup target does not answer')
      })
      const unknown = { sizeBytes: 0, storedBytes: 0, verifiedAtMs: 0 }
      return {
        backups: found.map((backup) => ({ ...backup, ...unknown, targetId: target.id })),
        settings: found.flatMap(({ id, settings }) => decodeSettings(id, settings) ?? []),
      }
    }),
  }
}
