import type { PortSpan } from '../../network/ports.js'

/**
 * Host ports that a setting in progress has freed in the journal. No other guest gets them until the host has followed:
 * the setting may be rolled back, and packets may still reach the old guest.
 */
export class PortHolds {
  readonly #spans = new Set<PortSpan>()

  get spans(): Iterable<PortSpan> {
    return this.#spans
  }

  /** @returns a function that ends the hold; idempotent */
  hold(span: PortSpan): () => void {
    this.#spans.add(span)
    return () => void this.#spans.delete(span)
  }
}
