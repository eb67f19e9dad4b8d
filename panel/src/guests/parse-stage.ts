export interface ParsedStage {
  /** Step of the task, or what it does: `disk`, `unpacking`. */
  readonly step: string
  /** Amount in English, such as `12 MiB, 3.1 MiB/s`. Empty: none. */
  readonly amount: string
  /** True if the task undoes the step. */
  readonly isUndo: boolean
  /** True if the step has failed and the task will try again. */
  readonly isRetry: boolean
}

const undo = 'undo '
const retry = 'failed, trying again'

/** Parses the stage of a task: `disk`, `copying: 12 MiB, 3.1 MiB/s`, `undo disk` or `disk: failed, trying again`. */
export function parseStage(stage: string): ParsedStage {
  const isUndo = stage.startsWith(undo)
  const [step = '', ...rest] = stage.slice(isUndo ? undo.length : 0).split(': ')
  const amount = rest.join(': ')
  const isRetry = amount === retry
  return { step, amount: isRetry ? '' : amount, isUndo, isRetry }
}
