/** The lowest z-index of a dialog, above header and navigation. Menus are above all dialogs (see `overlays.css`). */
const lowest = 40
const step = 2

/** Layers of the open dialogs, oldest first. The newest dialog is on top, wherever it is in the document. */
const layers: number[] = []

/** Runs the action when the address changes, for example after the Back button. @returns stops waiting */
function onNavigation(run: () => void): () => void {
  addEventListener('hashchange', run)
  return () => removeEventListener('hashchange', run)
}

/** The layer of one dialog. Create it during the initialization of a component. */
export class DialogLayer {
  #veil = $state(lowest)
  /**
   * Properties of the dialog's backdrop and content. bits-ui sets these styles by script, because the content security
   * policy forbids inline styles.
   */
  readonly ofVeil = $derived({ style: { zIndex: this.#veil } })
  readonly ofContent = $derived({ style: { zIndex: this.#veil + 1 } })

  /** @param close closes the dialog when the user goes to another page; absent: the dialog stays */
  constructor(isOpen: () => boolean, close?: () => void) {
    $effect.pre(() => (isOpen() ? this.#enter() : undefined))
    $effect(() => (close && isOpen() ? onNavigation(close) : undefined))
  }

  #enter(): () => void {
    const layer = (layers.at(-1) ?? lowest) + step
    layers.push(layer)
    this.#veil = layer
    return () => layers.splice(layers.indexOf(layer), 1)
  }
}
