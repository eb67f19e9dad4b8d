import { conflict } from '../../shared/errors.js'
import type { OperationEngine } from '../operations/engine.js'
import type { CatalogEntry } from './catalog.js'
import { imageSubject } from './definition.js'
import type { Images } from './images.js'

export interface ImageAdminParts {
  readonly images: Images
  readonly engine: OperationEngine
}

/** Changes images of this host immediately, without an operation. */
export class ImageAdmin {
  readonly #images: Images
  readonly #engine: OperationEngine

  constructor({ images, engine }: ImageAdminParts) {
    this.#images = images
    this.#engine = engine
  }

  /**
   * Cancels a queued or running download, and removes the downloaded data.
   * @returns the id of the download's operation
   * @throws {BerthError} `not_found`; `image_in_use` if a guest waits for the image; `invalid_state` without a download
   */
  async cancel(id: string): Promise<string> {
    const template = this.#images.get(id)
    if (this.#images.isUsed(id) && template.downloading) throw inUse()
    const [open] = this.#engine.openOperations(imageSubject(template))
    if (open === undefined) throw conflict('invalid_state', 'the image is not being downloaded')
    this.#engine.cancel(open)
    await this.#engine.wait(open)
    return open
  }

  /**
   * Deletes an image, but not its template. Guests that were created from the image are not affected.
   * @returns true if the image existed
   * @throws {BerthError} `not_found`, `task_running`, `image_in_use`
   */
  async delete(id: string): Promise<boolean> {
    this.#checkIdle(id)
    if (!this.#images.has(id)) return false
    await this.#images.remove(id)
    return true
  }

  /** Allows or forbids the creation of guests from a template. @throws {BerthError} `not_found` */
  setEnabled(id: string, enabled: boolean): void {
    this.#images.get(id)
    this.#images.store.update(id, { enabled })
  }

  /** Adds a custom template, unless it already exists. @throws {BerthError} `name_conflict`, `resource_exhausted` */
  addCustom(entry: CatalogEntry): void {
    const { store } = this.#images
    const known = store.findEntry(entry.id)
    if (known && JSON.stringify(known) !== JSON.stringify(entry))
      throw conflict('name_conflict', `id: the image ${entry.id} already exists`)
    if (known) return
    if (store.templates().length >= mostTemplates)
      throw conflict('resource_exhausted', `a host can have at most ${mostTemplates} images: remove one first`)
    store.addCustom(entry)
  }

  /**
   * Removes a custom template and its image. Guests that were created from the image are not affected.
   * @throws {BerthError} `not_found`, `invalid_state`, `task_running`, `image_in_use`
   */
  async removeCustom(id: string): Promise<void> {
    if (!this.#images.get(id).custom) throw conflict('invalid_state', 'only custom images can be removed')
    this.#checkIdle(id)
    this.#images.store.forget(id) // deletes the record first, so that after a crash, the agent's next start removes the files
    await this.#images.removeFiles(id)
  }

  #checkIdle(id: string): void {
    const { downloading } = this.#images.get(id)
    if (this.#images.isUsed(id)) throw inUse()
    if (downloading) throw conflict('task_running', 'the image is being downloaded')
  }
}

/** Maximum number of templates that a gateway accepts from a host. */
const mostTemplates = 500

function inUse(): Error {
  return conflict('image_in_use', 'a container is being created from the image')
}
