import { asFailure } from '../api/failure.ts'
import { failureText } from '../i18n/failure-text.ts'

/** Sends a form. Stores whether the request is in progress, and why the last request was refused. */
export class Submission {
  busy = $state(false)
  /** Message for the user. Empty: there is no problem. */
  problem = $state('')

  /** @param work sends the request and handles the response */
  async run(event: SubmitEvent, work: () => Promise<void>): Promise<void> {
    event.preventDefault()
    this.busy = true
    this.problem = ''
    try {
      await work()
    } catch (thrown) {
      this.problem = failureText(asFailure(thrown))
    } finally {
      this.busy = false
    }
  }
}
