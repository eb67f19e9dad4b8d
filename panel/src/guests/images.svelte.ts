import { api, ask } from '../api/client.ts'
import type { EnabledImage } from '../api/types.ts'
import { LiveRows } from '../live/live-rows.svelte.ts'
import { session } from '../session/session.svelte.ts'

/** Images from which guests can be created. Pages use the list to show names instead of ids. */
class ImageList extends LiveRows<EnabledImage> {
  readonly #names = $derived(new Map((this.rows ?? []).map(({ id, name }) => [id, name])))

  constructor() {
    super({
      topic: 'images',
      read: () => (session.may('image:read') ? ask(() => api.GET('/images/enabled')) : Promise.resolve([])),
      tells: () => false,
      apply: (rows) => rows,
    })
  }

  /** Returns the name of an image. If the name is not known, for example of a removed image, returns the id. */
  nameOf(id: string): string {
    return this.#names.get(id) ?? id
  }
}

export const images = new ImageList()
