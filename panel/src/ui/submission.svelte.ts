import { asFailure } from '../api/failure.ts'
import { failureText, fieldFailureText } from '../i18n/failure-text.ts'

/** Sends a form. Stores whether the request is in progress, and why the last request was refused. */
export class Submission {
  busy = $state(false)
  /** Message for the user. Empty: there is no problem. */
  problem = $state('')
  /** The same message for the field's own place, which needs no name of the field. */
  #fieldProblem = $state('')
  /** Field of the request that was refused, as the API spells it. Empty: the problem is of no single field. */
  field = $state('')

  /**
   * @param event submission of the form, or the click on a button
   * @param work sends the request and handles the response
   */
  async run(event: Event, work: () => Promise<void>): Promise<void> {
    event.preventDefault()
    this.busy = true
    this.problem = this.field = this.#fieldProblem = ''
    try {
      await work()
    } catch (thrown) {
      const failure = asFailure(thrown)
      this.field = failure.about.field ?? ''
      this.problem = failureText(failure)
      this.#fieldProblem = fieldFailureText(failure)
    } finally {
      this.busy = false
    }
  }

  /** @returns the problem to show at this field, or `''` */
  at(field: string): string {
    return this.field === field ? this.#fieldProblem : ''
  }

  /** @returns the problem if it belongs to none of these fields, or `''` */
  besides(fields: readonly string[]): string {
    return fields.includes(this.field) ? '' : this.problem
  }
}
