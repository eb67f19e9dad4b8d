import { BerthError, conflict } from '../../shared/errors.js'

interface Rule {
  /**
   * Regular expressions that ignore case. The rule matches if one of them matches the output of restic or ssh. For S3
   * servers, the expressions match error messages, not error codes.
   */
  readonly says: readonly string[]
  readonly code: string
  readonly message: string
  /** True if a retry is useless. restic itself would retry for 15 minutes. */
  readonly final?: boolean
}

/** Rules for failures. The first matching rule is used. The rule for a cause must precede rules for its effects. */
const rules: readonly Rule[] = [
  {
    says: ['out of memory', 'cannot allocate memory', 'failed to create new os thread'],
    code: 'backup_memory',
    message: 'the data on the target needs more memory than backups.memory_mb of the host allows',
  },
  {
    says: ['wrong password or no key found'],
    code: 'backup_password_wrong',
    message: 'the data on the target is encrypted with another password than the one of this backup target',
    final: true,
  },
  {
    says: ['host key verification failed', 'remote host identification', 'host key is known for'],
    code: 'backup_target_refused',
    message: 'the server has another host key than the backup target',
    final: true,
  },
  {
    says: ['x509: ', 'tls: '],
    code: 'backup_target_refused',
    message: 'the host does not trust the certificate of the target',
    final: true,
  },
  {
    says: [
      'no space left on device',
      'quota ?exceeded',
      'cap exceeded',
      'insufficient storage',
      'minimum free drive threshold',
      'minimum free disk threshold',
    ],
    code: 'backup_target_full',
    message: 'the target has no free space',
    final: true,
  },
  {
    says: [
      'permission denied',
      'access ?denied',
      '403 forbidden',
      'operation not permitted',
      'access key id you provided',
      'request signature we calculated',
      'request time and the (current|server)',
      'read-only file system',
    ],
    code: 'backup_target_refused',
    message: 'the target refuses the credentials or the folder',
    final: true,
  },
  {
    says: ['already locked'],
    code: 'backup_busy',
    message: 'another task is using the backups of this container: try again later',
  },
  {
    says: [
      'connection (refused|reset|lost|closed|timed out)',
      'no route to host',
      'network is unreachable',
      'i/o timeout',
      'timeout awaiting',
      'could not resolve',
      'no such host',
      'broken pipe',
      'closed by remote',
      'kex_exchange',
      'ssh command exited',
      'does not answer',
      'start the sftp session',
      'file already closed',
      'failed to send packet',
      'server disconnect',
      'closed idle connection',
      'use of closed',
      'foreign host',
    ],
    code: 'backup_target_unreachable',
    message: 'the target cannot be reached, or closed the connection',
  },
  {
    says: [
      'does not match',
      'hash mismatch',
      'ciphertext verification failed',
      'contains errors',
      'invalid data',
      'not found in (the )?index',
      'not found in repository',
      'unexpected (pack|size|content)',
    ],
    code: 'backup_damaged',
    message: 'the data on the target differs from the data that was sent to it',
  },
  {
    says: ['\\bEOF\\b'],
    code: 'backup_target_unreachable',
    message: 'the target closed the connection',
  },
  {
    says: ['does not exist', 'no such file', 'not a directory'],
    code: 'backup_missing',
    message: 'the target does not contain the requested data',
  },
]

const unknown: Rule = {
  says: [''],
  code: 'backup_target_failed',
  message: 'the backup target reported an error: see the log of the agent',
}

const patterns = new Map(rules.map((rule) => [rule, new RegExp(rule.says.join('|'), 'i')]))

function findRule(said: string): Rule | undefined {
  return rules.find((rule) => patterns.get(rule)?.test(said))
}

/**
 * Returns the reason for the failure of a restic run, as an error for the user. The output itself is only logged.
 * @param said standard error, or the last failure that restic reported on standard error
 * @param before the output without `said`; used only if no rule matches `said`
 */
export function planFailure(said: string, before = ''): BerthError {
  const { code, message } = findRule(said) ?? findRule(before) ?? unknown
  return conflict(code, message)
}

/** Matches a failure that restic reports before it retries. */
const complaint = /returned error|retrying|error loading|failed for|unable to/i

/** Parses a line of output. Returns undefined if the line reports no failure. `final` is true if a retry is useless. */
export function readComplaint(line: string): { readonly final: boolean } | undefined {
  const final = findRule(line)?.final ?? false
  return final || complaint.test(line) ? { final } : undefined
}

/** True if the error means that the repository does not exist. */
export function isAbsent(error: unknown): boolean {
  return error instanceof BerthError && error.code === 'backup_missing'
}
