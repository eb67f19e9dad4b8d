import { BerthError, conflict } from '../../shared/errors.js'

/** What a target may be blamed for; all are the caller's or the target's to mend, so none is an internal error. */
export const backupFailures = [
  ...['backup_target_unreachable', 'backup_target_refused', 'backup_target_full', 'backup_target_failed'],
  ...['backup_password_wrong', 'backup_damaged', 'backup_missing', 'backup_busy', 'backup_too_large'],
  ...['backup_incomplete'],
] as const

interface Rule {
  readonly pattern: RegExp
  readonly code: string
  readonly message: string
  /** Trying again is of no use: restic would, for a quarter of an hour. */
  readonly final?: boolean
}

/** The first that holds counts: what is nearest to the cause comes first. */
const rules: readonly Rule[] = [
  {
    pattern: /wrong password or no key found/,
    code: 'backup_password_wrong',
    message: 'what the target has is encrypted with another password',
    final: true,
  },
  {
    pattern: /Host key verification failed|REMOTE HOST IDENTIFICATION|No \S+ host key is known/,
    code: 'backup_target_refused',
    message: 'the server has another host key than the target names',
    final: true,
  },
  {
    pattern:
      /no space left on device|disk quota exceeded|quota ?exceeded|XMinioStorageFull|EntityTooLarge|InsufficientStorage|507 Insufficient/i,
    code: 'backup_target_full',
    message: 'the target has no room left',
    final: true,
  },
  {
    pattern:
      /Permission denied|Access ?Denied|InvalidAccessKeyId|SignatureDoesNotMatch|403 Forbidden|operation not permitted|read-only file system/i,
    code: 'backup_target_refused',
    message: 'the target refuses its credentials or its folder',
    final: true,
  },
  {
    pattern: /already locked/,
    code: 'backup_busy',
    message: 'something else is being done with the backups of this container',
  },
  {
    pattern:
      /connection refused|no route to host|network is unreachable|i\/o timeout|timed? ?out|could not resolve|no such host|connection reset|broken pipe|connection lost|connection closed|closed by remote|kex_exchange|ssh command exited|ssh exited|client exited/i,
    code: 'backup_target_unreachable',
    message: 'the target cannot be reached, or broke off',
  },
  {
    pattern:
      /does not match|hash mismatch|ciphertext verification failed|not found in (?:the )?index|contains errors|unexpected (?:pack|size|content)|invalid data|damaged|corrupt|pack .* (?:missing|truncated)|not found in repository|unable to load|number of (?:used )?blobs/i,
    code: 'backup_damaged',
    message: 'what the target has is not what was sent to it',
  },
  {
    pattern: /\bEOF\b/,
    code: 'backup_target_unreachable',
    message: 'the target broke off',
  },
  {
    pattern: /does not exist|no such file|NoSuchKey|NoSuchBucket|not a directory/i,
    code: 'backup_missing',
    message: 'the target has it not',
  },
]

const unknown: Rule = {
  pattern: /^/,
  code: 'backup_target_failed',
  message: 'the target failed',
}

function ruleOf(said: string): Rule {
  return rules.find(({ pattern }) => pattern.test(said)) ?? unknown
}

/**
 * Why a run of restic failed.
 * @param said all that it wrote to standard error, or the last that it complained of
 */
export function planFailure(said: string, cause?: unknown): BerthError {
  const { code, message } = ruleOf(said)
  return failure(code, message, cause)
}

export function failure(code: string, message: string, cause?: unknown): BerthError {
  const found = conflict(code, message)
  return cause === undefined ? found : new BerthError(found.kind, code, message, { cause })
}

/** A complaint that comes while restic tries again and again. */
const complaint = /returned error|retrying|error loading|failed for|unable to/i

/** Whether it is of no use to go on. Undefined: it is no complaint. */
export function readComplaint(line: string): { readonly final: boolean } | undefined {
  const rule = rules.find(({ pattern }) => pattern.test(line))
  if (!complaint.test(line) && !rule?.final) return undefined
  return { final: rule?.final ?? false }
}

/** Whether there is no repository yet, of all reasons that one cannot be opened for. */
export function isAbsent(error: unknown): boolean {
  return error instanceof BerthError && error.code === 'backup_missing'
}
