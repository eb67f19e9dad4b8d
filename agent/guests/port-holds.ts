import type { PortSpan } from '../network/ports.js'

/**
 * Host ports that a setting under way has freed in the journal. Until the host has followed it may go back to them, and
 * its guest's packets may still come by them: nobody else gets them.
 */
export class PortHolds {
  readonly #spans = new Set<PortSpan>()

  get spans(): Iterable<PortSpan> {
    return this.#spans
  }

  /** @returns ends it; safe to repeat */
  hold(span: PortSpan): () => void {
    this.#spans.add(span)
    return () => void this.#spans.delete(span)
  }
}
