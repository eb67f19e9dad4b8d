import { api, ask } from '../api/client.ts'
import type { Host } from '../api/types.ts'
import { LiveRows } from '../live/live-rows.svelte.ts'

/** All hosts that the user is allowed to see. Pages use the list to show names instead of ids. */
class HostList extends LiveRows<Host> {
  readonly #names = $derived(new Map((this.rows ?? []).map(({ id, name }) => [id, name])))

  constructor() {
    super({
      topic: 'hosts',
      read: () => ask(() => api.GET('/hosts')),
      tells: () => false,
      apply: (rows) => rows,
    })
  }

  /** Returns the name of a host. If the name is not known, returns the id. */
  nameOf(id: string): string {
    return this.#names.get(id) ?? id
  }
}

export const hosts = new HostList()
