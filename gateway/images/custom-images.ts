import { AddCustomImageRequest } from '../../proto/gen/berth/agent/v1/image.js'
import type { Store } from '../store/store.js'

/** A custom image for all hosts, including hosts that join later. */
export interface CustomImageRecord {
  readonly request: AddCustomImageRequest
  /** Ids of the hosts that must not get the image, because it was removed from these hosts. */
  readonly leftOut: readonly string[]
}

/**
 * Custom images for all hosts. All methods throw BerthError `store_unavailable`.
 *
 * | key | holds |
 * |---|---|
 * | `custom-images` | hash: id → CustomImageRecord as JSON |
 */
export class CustomImages {
  constructor(private readonly store: Store) {}

  async list(): Promise<CustomImageRecord[]> {
    const texts = await this.store.run('read custom images', (client) => client.hVals(this.#key))
    return texts.map(parse)
  }

  async find(id: string): Promise<CustomImageRecord | undefined> {
    const text = await this.store.run('read a custom image', (client) => client.hGet(this.#key, id))
    return text === null ? undefined : parse(text)
  }

  async add(request: AddCustomImageRequest): Promise<void> {
    await this.#put({ request, leftOut: [] })
  }

  async remove(id: string): Promise<void> {
    await this.store.run('remove a custom image', (client) => client.hDel(this.#key, id))
  }

  /** Records that the image was removed from a host. Does nothing if the image is not for all hosts. */
  async leaveOut(id: string, hostId: string): Promise<void> {
    const record = await this.find(id)
    if (record && !record.leftOut.includes(hostId)) await this.#put({ ...record, leftOut: [...record.leftOut, hostId] })
  }

  async #put(record: CustomImageRecord): Promise<void> {
    const text = JSON.stringify(record)
    await this.store.run('write a custom image', (client) => client.hSet(this.#key, record.request.id, text))
  }

  get #key(): string {
    return this.store.key('custom-images')
  }
}

function parse(text: string): CustomImageRecord {
  const { request, leftOut } = JSON.parse(text) as CustomImageRecord
  return { request: AddCustomImageRequest.fromPartial(request), leftOut }
}
