import { api, ask } from '../api/client.ts'
import type { Host } from '../api/types.ts'
import { LiveRows } from '../live/live-rows.svelte.ts'

/** All hosts, for users who may see them, so that pages show names instead of ids. */
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

  /** The name, or the id if the name is not known. */
  nameOf(id: string): string {
    return this.#names.get(id) ?? id
  }
}

export const hosts = new HostList()
