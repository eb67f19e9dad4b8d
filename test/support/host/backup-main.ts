import { argv } from 'node:process'
import { ResticRepositories } from '../../../agent/backups/repositories.js'
import type { SftpPlace } from '../../../proto/gen/berth/agent/v1/backup.js'
import { silentLog } from '../gateway/redis.js'

/*
 * Sends a tree to an SFTP server, as a process that a test can kill. Arguments: a directory for runtime files, the
 * tree, the UUID of the guest, the UUID of the backup, and the SFTP server's address and login as JSON.
 */

const [directory = '', tree = '', id = '', place = ''] = argv.slice(2)
const target = {
  id,
  name: 'vault',
  password: 'the-password-of-the-vault',
  verifyPercent: 100,
  place: { $case: 'sftp', value: JSON.parse(place) as SftpPlace },
} as const
const repositories = new ResticRepositories({
  directory,
  parallel: 1,
  patienceMs: 5000,
  memoryBytes: 2 ** 31,
  log: silentLog,
})
const watch = { signal: new AbortController().signal, report: () => undefined }
await repositories.send(
  { target, guest: id },
  { id, tree, note: { createdBy: 'test', description: '', scheduled: false } },
  watch,
)
await repositories.verify({ target, guest: id }, 100, watch)
