import { asFailure } from '../api/failure.ts'
import { failureText } from '../i18n/failure-text.ts'
import { t } from '../i18n/text.svelte.ts'
import { notices } from './notices.svelte.ts'

export function notifyDone(text: string): void {
  void notices.show((toast) => toast.success(text))
}

export function notifyProblem(text: string): void {
  void notices.show((toast) => toast.error(text, { duration: 10_000 }))
}

/** Shows a failure, with the request id that identifies it in the log. */
export function notifyFailure(thrown: unknown): void {
  const failure = asFailure(thrown)
  const { requestId } = failure.about
  const options = {
    ...(requestId && { description: t('error.request', { id: requestId }) }),
    duration: 10_000,
  }
  void notices.show((toast) => toast.error(failureText(failure), options))
}

/** Runs the action of a button. If the action fails, shows the error. @returns true if it succeeded */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (thrown) {
    notifyFailure(thrown)
    return false
  }
}
