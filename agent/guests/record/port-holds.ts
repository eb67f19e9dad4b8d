import type { PortSpan } from '../../network/ports.js'

/**
 * Host ports that a setting in progress has freed in the journal. Nobody else gets them until the host has followed:
 * the setting may be taken back, and packets may still reach the old guest.
 */
export class PortHolds {
  readonly #spans = new Set<PortSpan>()

  get spans(): Iterable<PortSpan> {
    return this.#spans
  }

  /** @returns a function that ends the hold; safe to repeat */
  hold(span: PortSpan): () => void {
    this.#spans.add(span)
    return () => void this.#spans.delete(span)
  }
}
