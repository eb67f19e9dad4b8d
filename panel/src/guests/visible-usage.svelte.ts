import { api, ask } from '../api/client.ts'
import { asFailure, type ApiFailure } from '../api/failure.ts'
import type { Guest, GuestUsage } from '../api/types.ts'
import { byUuid } from './rows.ts'
import { live } from '../live/live.svelte.ts'

/** Maximum number of guests in one request. */
const most = 100
/** Time in ms without scrolling after which the usage of the visible guests is read. */
const restMs = 200

/** The usage of the guests that the list shows at the moment. The usage of other guests is not read. */
export class VisibleUsage {
  known = $state.raw<ReadonlyMap<string, GuestUsage>>(byUuid([]))
  failure = $state.raw<ApiFailure | undefined>()
  #visible: readonly Guest[] = []
  #timer: ReturnType<typeof setTimeout> | undefined

  /** Reads usages periodically. Call it in an effect. @returns a function that ends the updates */
  follow(): () => void {
    const end = live.follow(['usage'], () => this.refetch())
    return () => {
      clearTimeout(this.#timer)
      end()
    }
  }

  show(guests: readonly Guest[]): void {
    this.#visible = guests.slice(0, most)
    if (this.#visible.every(({ uuid }) => this.known.has(uuid))) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.refetch(), restMs)
  }

  refetch = async (): Promise<void> => {
    clearTimeout(this.#timer)
    const guests = this.#visible
    if (guests.length === 0) return
    const query = { containers: guests.map(({ id }) => id).join(',') }
    try {
      const rows = await ask(() => api.GET('/container-usage', { params: { query } }))
      this.known = byUuid(rows)
      this.failure = undefined
    } catch (thrown) {
      this.failure = asFailure(thrown)
    }
  }
}
