/** Above the page with its header and navigation. Menus are above all dialogs, see `overlays.css`. */
const lowest = 40
const step = 2

/** Layers of the open dialogs, the oldest first: whatever opens last is on top, wherever its component stands. */
const layers: number[] = []

/** The layer of one dialog. Create it while a component is set up. */
export class DialogLayer {
  /** z-index of the veil; the dialog itself is one above it. */
  veil = $state(lowest)

  constructor(isOpen: () => boolean) {
    $effect.pre(() => (isOpen() ? this.#enter() : undefined))
  }

  #enter(): () => void {
    const layer = (layers.at(-1) ?? lowest) + step
    layers.push(layer)
    this.veil = layer
    return () => layers.splice(layers.indexOf(layer), 1)
  }
}
