import { GuestEvidence } from './guest-evidence.js'

/** Maximum number of flows of all guests. Beyond it, guests with more than an equal share lose their observations. */
const mostRows = 300_000

export class EvidenceStore {
  readonly #byGuest = new Map<string, GuestEvidence>()

  find(uuid: string): GuestEvidence | undefined {
    return this.#byGuest.get(uuid)
  }

  of(uuid: string): GuestEvidence {
    const known = this.#byGuest.get(uuid)
    if (known) return known
    const made = new GuestEvidence()
    this.#byGuest.set(uuid, made)
    return made
  }

  delete(uuid: string): void {
    this.#byGuest.delete(uuid)
  }

  /** Deletes old observations, and all observations of guests that no longer exist. */
  prune(nowMs: number, guests: readonly { readonly uuid: string }[]): void {
    this.#forgetRemoved(guests)
    let rows = 0
    for (const evidence of this.#byGuest.values()) {
      evidence.prune(nowMs)
      rows += evidence.size
    }
    if (rows <= mostRows) return
    const share = mostRows / Math.max(1, this.#byGuest.size)
    for (const evidence of this.#byGuest.values()) if (evidence.size > share) evidence.forget()
  }

  /** Deletes observations of guests that no longer exist. Observations can arrive while a guest is being deleted. */
  #forgetRemoved(guests: readonly { readonly uuid: string }[]): void {
    if (this.#byGuest.size <= guests.length) return
    const known = new Set(guests.map(({ uuid }) => uuid))
    for (const uuid of this.#byGuest.keys()) if (!known.has(uuid)) this.#byGuest.delete(uuid)
  }
}
