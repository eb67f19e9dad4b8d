import type { Logger } from 'pino'
import { isStorageFault, recordedError } from './retry.js'
import type { JournaledOperation, OperationError, OperationStore } from './operation-store.js'
import type { Clock, OperationDefinition, OperationOutcome } from './types.js'

/** The end of an operation, as it is written to the journal. */
export interface OperationEnding {
  readonly definition: OperationDefinition<unknown, string> | undefined
  readonly operation: JournaledOperation
  readonly outcome: OperationOutcome
  /** Reason of an end without failure, for example why the operation was canceled. */
  readonly reason?: OperationError
}

/** Outcome of an operation with an unknown action. It fails, so that later operations of the subject can run. */
export function unknownAction(action: string): OperationOutcome {
  const message = `this version of the agent does not know the operation ${action}`
  return { status: 'failed', code: 'unknown_action', message, undone: false }
}

export function unreadableInput({ record }: JournaledOperation, why: string): OperationOutcome {
  const message = `the journal entry of this operation is damaged: ${why}`
  return { status: 'failed', code: 'journal_damaged', message, undone: record.status === 'pending' }
}

/** Outcome of an operation that failed because of an error in the engine or the journal, not in a step. */
export function brokenOperation(error: unknown): OperationOutcome {
  return { status: 'failed', ...recordedError(error), undone: false }
}

const none: OperationError = { code: '', message: '' }

/** Calls the definition's `settle` and writes the operation's end to the journal, in one transaction. */
export function commitEnd(store: OperationStore, clock: Clock, ending: OperationEnding): void {
  const { definition, operation, outcome } = ending
  const { id, subject } = operation.record
  store.changes.transaction(() => {
    definition?.settle?.({ id, subject, input: operation.input }, outcome)
    const { code, message } = outcome.status === 'failed' ? outcome : (ending.reason ?? none)
    store.end(id, outcome.status, clock.now(), { code, message })
  })
}

/**
 * Records the end of an operation even if the definition's `settle` throws, which is a bug. Without the end, later
 * operations of the subject would wait forever. After such a bug, the operation counts as failed, and `settle` is
 * called again with the failure. If this call also throws, only the end is recorded.
 * @throws if the journal cannot be written now
 */
export function commitEndAnyway(
  store: OperationStore,
  { clock, log }: { clock: Clock; log: Logger },
  ending: OperationEnding,
): void {
  try {
    commitEnd(store, clock, ending)
  } catch (err) {
    if (isStorageFault(err) || !ending.definition?.settle) throw err
    log.error({ err }, 'could not record the result of an operation')
    const { message } = recordedError(err)
    const asked = ending.outcome.status === 'failed' ? `${ending.outcome.message}; ` : ''
    const outcome: OperationOutcome = {
      status: 'failed',
      code: 'internal_error',
      message: `${asked}recording the result failed: ${message}`.slice(0, 2000),
      undone: false,
    }
    const again = ending.outcome.status === 'failed' && !ending.outcome.undone
    commitEndAnyway(store, { clock, log }, again ? { ...ending, definition: undefined } : { ...ending, outcome })
  }
}
