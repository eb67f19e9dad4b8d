/** Forms of the page with values that the user has changed and not saved. */
const changedForms = new Set<Element>()

export function hasUnsaved(within?: Element | null): boolean {
  return [...changedForms].some((form) => !within || within.contains(form))
}

/** Forgets all unsaved values, for example because the user wants to leave the page without them. */
export function forgetUnsaved(): void {
  changedForms.clear()
}

/** Knows whether a form has unsaved values. */
export class Draft {
  #form: Element | undefined
  #revision = 0

  /** @param report is called with true if the form has unsaved values now, else with false */
  constructor(private readonly report: (hasUnsaved: boolean) => void = () => undefined) {}

  /** Increases with each change of the form. */
  get revision(): number {
    return this.#revision
  }

  /** Attachment of the form. Each input of the user in the form is unsaved until `saved` is called. */
  readonly track = (form: Element): (() => void) => {
    const touch = (): void => this.touch()
    const release = this.hold(form)
    form.addEventListener('input', touch)
    return () => {
      form.removeEventListener('input', touch)
      release()
    }
  }

  /** Attachment of a form that calls `touch` and `saved` itself, because it knows when its values differ. */
  readonly hold = (form: Element): (() => void) => {
    this.#form = form
    return () => {
      changedForms.delete(form)
      if (this.#form !== form) return
      this.#form = undefined
      this.report(false)
    }
  }

  /** Marks the form as changed, after a change without an `input` event, such as a new row. */
  touch(): void {
    this.#revision++
    if (!this.#form) return
    changedForms.add(this.#form)
    this.report(true)
  }

  /** Marks the form as saved. @param revision the revision that was saved. Later changes remain unsaved. */
  saved(revision = this.#revision): void {
    if (!this.#form || revision !== this.#revision) return
    changedForms.delete(this.#form)
    this.report(false)
  }
}
