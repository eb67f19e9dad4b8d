import { asFailure, type ApiFailure } from '../api/failure.ts'
import { notifyFailure } from './notify.ts'
import { Draft } from './unsaved.ts'
import { failureText, fieldFailureText } from '../i18n/failure-text.ts'

/**
 * Sends a form. Stores whether the request is in progress, and why the last request was refused. Create it during the
 * initialization of the component with the form.
 */
export class Submission {
  busy = $state(false)
  /** Message for the user. Empty: there is no problem. */
  problem = $state('')
  /** The same message for the field's own place, which needs no name of the field. */
  #fieldProblem = $state('')
  /** True if the form has values that the user has changed and not saved. */
  changed = $state(false)
  /** Attach `draft.track` to a form whose values must not get lost. */
  readonly draft = new Draft((changed) => (this.changed = changed))
  /** Field of the request that was refused, as the API spells it. Empty: the problem is of no single field. */
  field = $state('')
  /** True after the component was removed from the page. */
  #isGone = false

  constructor() {
    $effect(() => () => (this.#isGone = true))
  }

  /** @param event submission of the form, or the click on a button */
  async run(event: Event, work: () => Promise<void>): Promise<void> {
    event.preventDefault()
    await this.attempt(work)
  }

  /** @param work sends the request and handles the response @returns true if it succeeded */
  async attempt(work: () => Promise<unknown>): Promise<boolean> {
    const { revision } = this.draft
    this.busy = true
    this.problem = this.field = this.#fieldProblem = ''
    try {
      await work()
      this.draft.saved(revision)
      return true
    } catch (thrown) {
      this.#refuse(asFailure(thrown))
      return false
    } finally {
      this.busy = false
    }
  }

  #refuse(failure: ApiFailure): void {
    this.field = failure.about.field ?? ''
    this.problem = failureText(failure)
    this.#fieldProblem = fieldFailureText(failure)
    if (this.#isGone) notifyFailure(failure)
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
