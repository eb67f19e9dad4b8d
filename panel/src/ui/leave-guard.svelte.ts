import { push } from 'svelte-spa-router'
import { forgetUnsaved, hasUnsaved } from './unsaved.ts'
import { pageKeyOfUrl } from './page-key.ts'

/** Asks before the user leaves a page with unsaved values. */
class LeaveGuard {
  /** The action that waits for the answer. Undefined: there is no question. */
  pending = $state.raw<(() => void) | undefined>()

  /** Address of the page that is shown. */
  #shown = ''
  /** Address that the user wanted while the page had unsaved values. */
  #wanted = ''

  /** Watches navigation, also by the buttons of the browser. @returns stops it */
  start(): () => void {
    this.#shown = location.href
    addEventListener('popstate', this.#onPop)
    addEventListener('hashchange', this.#onHash)
    addEventListener('beforeunload', this.#onUnload)
    return () => {
      removeEventListener('popstate', this.#onPop)
      removeEventListener('hashchange', this.#onHash)
      removeEventListener('beforeunload', this.#onUnload)
    }
  }

  /**
   * Runs an action that loses unsaved values, after a question if there are any. The action calls `forgetUnsaved` when it
   * can no longer fail.
   */
  run(action: () => void): void {
    if (hasUnsaved()) this.pending = action
    else action()
  }

  leave(): void {
    const action = this.pending
    this.pending = undefined
    action?.()
  }

  /** A change of the address cannot be prevented. It is reverted before `hashchange`, the event that the router uses. */
  readonly #onPop = (): void => {
    const { href } = location
    if (!hasUnsaved() || pageKeyOfUrl(href) === pageKeyOfUrl(this.#shown)) return
    history.replaceState(history.state, '', this.#shown)
    this.#wanted = href
  }

  /** Asks only now, because dialogs close at this event. */
  readonly #onHash = (): void => {
    const wanted = this.#wanted
    this.#wanted = ''
    if (wanted !== '') this.pending = () => leaveFor(wanted)
    this.#shown = location.href
  }

  readonly #onUnload = (event: BeforeUnloadEvent): void => {
    if (hasUnsaved()) event.preventDefault()
  }
}

function leaveFor(url: string): void {
  forgetUnsaved()
  location.assign(url)
}

export const leaveGuard = new LeaveGuard()

/** Goes to a page after the object of this page was deleted. Unsaved values are no longer of use. */
export function leaveDeleted(path: string): void {
  forgetUnsaved()
  void push(path)
}
