import { createContext } from 'svelte'
import { SvelteSet } from 'svelte/reactivity'
import type { ApiFailure } from '../api/failure.ts'
import { failureText, fieldFailureText } from '../i18n/failure-text.ts'
import { findField } from './field-name.ts'

/** Why the API refused the form of a dialog. The message appears at the refused field if the dialog shows this field. */
export class DialogProblems {
  /** Fields that the dialog shows, as the API spells them. */
  readonly #fields = new SvelteSet<string>()
  #failure = $state.raw<ApiFailure | undefined>()
  readonly #field = $derived(findField(this.#failure?.about.field, this.#fields))
  /** Message that belongs to no field of the dialog, or `''`. */
  readonly general = $derived(this.#failure && this.#field === undefined ? failureText(this.#failure) : '')

  /** Adds a field of the dialog. Call it in an effect. @returns a function that removes the field */
  show(field: string): () => void {
    this.#fields.add(field)
    return () => void this.#fields.delete(field)
  }

  refuse(failure: ApiFailure): void {
    this.#failure = failure
  }

  clear(): void {
    this.#failure = undefined
  }

  /** @returns the message to show at this field, or `''` */
  at(field: string): string {
    return this.#failure && this.#field === field ? fieldFailureText(this.#failure) : ''
  }
}

const [get, set, exists] = createContext<DialogProblems>()

/** Provides the problems of a dialog to its fields. Call it during the initialization of the dialog. */
export const provideDialogProblems = (): DialogProblems => set(new DialogProblems())

/** Returns the problems of the dialog around a component. Undefined: the component is in no dialog with a form. */
export const findDialogProblems = (): DialogProblems | undefined => (exists() ? get() : undefined)
