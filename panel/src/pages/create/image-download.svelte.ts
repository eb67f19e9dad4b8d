import { untrack } from 'svelte'
import { api, send } from '../../api/client.ts'
import { ApiFailure, asFailure } from '../../api/failure.ts'
import type { Image } from '../../api/types.ts'
import { t } from '../../i18n/text.svelte.ts'
import type { Resource } from '../../live/resource.svelte.ts'
import { downloadState } from './offered-images.ts'

/** Downloads an image before a guest is created from it. Create it during the initialization of a component. */
export class ImageDownload {
  /** Id of the image. Empty: no download runs. */
  id = $state('')
  #hostId = $state('')
  #end: ((isDone: boolean) => void) | undefined
  readonly #state = $derived.by(() => downloadState(this.catalogue.data ?? [], this.id, this.#hostId))

  /** @param catalogue all images of all hosts */
  constructor(private readonly catalogue: Resource<Image[]>) {
    $effect(() => {
      if (this.id !== '' && this.#state.isOver) untrack(() => this.#end?.(true))
    })
  }

  get percent(): number {
    return this.#state.percent
  }

  /**
   * Downloads an image. If the page is left, the promise stays pending.
   * @param hostId id of the host; empty: all hosts that can use the image
   * @returns false if the user has canceled the download
   * @throws {ApiFailure} if no host has the image afterwards
   */
  async run(id: string, hostId: string): Promise<boolean> {
    const body = { template_id: id, ...(hostId && { host_id: hostId }) }
    await send(() => api.POST('/images/download', { body })).catch(ignoreRunning)
    await this.catalogue.refetch()
    const ended = new Promise<boolean>((resolve) => (this.#end = resolve))
    ;[this.id, this.#hostId] = [id, hostId]
    const isDone = await ended
    const { error } = this.#state
    this.id = ''
    if (isDone && error !== '') throw new ApiFailure(error, t('images.failed'))
    return isDone
  }

  async cancel(): Promise<void> {
    const body = { template_id: this.id, ...(this.#hostId && { host_id: this.#hostId }) }
    this.#end?.(false)
    await send(() => api.POST('/images/cancel', { body }))
  }
}

/** Somebody else may have begun the download. */
function ignoreRunning(thrown: unknown): void {
  if (asFailure(thrown).code !== 'task_running') throw thrown
}
