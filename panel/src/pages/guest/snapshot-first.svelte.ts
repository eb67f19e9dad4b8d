import { api, ask } from '../../api/client.ts'
import type { Guest } from '../../api/types.ts'
import { live } from '../../live/live.svelte.ts'
import { session } from '../../session/session.svelte.ts'

/** True if a snapshot is taken before the disk is replaced; by default wherever that is possible. */
export class SnapshotFirst {
  wanted = $state(false)
  /** `full`: the guest has reached its limit. `refused`: the user may not take one. */
  state = $state<'unknown' | 'possible' | 'full' | 'refused'>('unknown')

  /** Checks whether there is room for one. */
  async offer({ id }: Pick<Guest, 'id'>): Promise<void> {
    this.wanted = false
    this.state = session.may('snapshot:create') && session.may('snapshot:read') ? 'unknown' : 'refused'
    if (this.state === 'refused') return
    try {
      const params = { path: { id: String(id) } }
      const { quota, snapshots } = await ask(() => api.GET('/containers/{id}/snapshots', { params }))
      this.state = snapshots.length < quota ? 'possible' : 'full'
      this.wanted = this.state === 'possible'
    } catch {
      this.state = 'possible' // taking the snapshot reports the obstacle
    }
  }

  /** Takes the snapshot if the user wants one. Call it before the disk is replaced. @throws {ApiFailure} */
  async take({ id }: Pick<Guest, 'id'>, description: string): Promise<void> {
    if (!this.wanted) return
    const params = { path: { id: String(id) } }
    await ask(() => api.POST('/containers/{id}/snapshots', { params, body: { description } }))
    live.touch('snapshots')
    this.wanted = false // a second attempt takes no second one
  }
}
