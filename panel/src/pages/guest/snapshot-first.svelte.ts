import { api, ask } from '../../api/client.ts'
import type { Guest } from '../../api/types.ts'
import { live } from '../../live/live.svelte.ts'
import { session } from '../../session/session.svelte.ts'

/** The choice to take a snapshot before the guest's disk is replaced. Preselected if a snapshot is possible. */
export class SnapshotFirst {
  wanted = $state(false)
  /** `full`: the guest has reached its limit of snapshots. `refused`: the user lacks the right to take snapshots. */
  state = $state<'unknown' | 'possible' | 'full' | 'refused'>('unknown')

  #offered: Promise<void> = Promise.resolve()

  /** Checks whether the user has the right to take a snapshot, and the guest's limit allows one more. */
  offer(guest: Pick<Guest, 'id'>): void {
    this.#offered = this.#check(guest)
  }

  async #check({ id }: Pick<Guest, 'id'>): Promise<void> {
    this.wanted = false
    this.state = session.may('snapshot:create') && session.may('snapshot:read') ? 'unknown' : 'refused'
    if (this.state === 'refused') return
    try {
      const params = { path: { id: String(id) } }
      const { quota, snapshots } = await ask(() => api.GET('/containers/{id}/snapshots', { params }))
      this.state = snapshots.length < quota ? 'possible' : 'full'
      this.wanted = this.state === 'possible'
    } catch {
      this.state = 'possible' // it is unknown whether a snapshot is possible; if not, `take` fails and shows why
    }
  }

  /** Takes the snapshot if the user has selected it. Call it before the disk is replaced. @throws {ApiFailure} */
  async take({ id }: Pick<Guest, 'id'>, description: string): Promise<void> {
    await this.#offered // until then, the user sees no choice, and `wanted` is not known
    if (!this.wanted) return
    const params = { path: { id: String(id) } }
    await ask(() => api.POST('/containers/{id}/snapshots', { params, body: { description } }))
    live.touch('snapshots')
    this.wanted = false // a second attempt to replace the disk takes no second snapshot
  }
}
