import type { Logger } from 'pino'
import type { Fleet, FleetView } from '../fleet/contract.js'
import type { CustomImages } from './custom-images.js'

export interface KeepImagesParts {
  readonly fleet: Fleet
  readonly images: Pick<CustomImages, 'list' | 'find'>
  readonly log: Logger
}

interface MissingImage {
  readonly hostId: string
  readonly id: string
}

/** Adds the custom images for all hosts to hosts that lack them, such as new hosts and hosts that were offline. */
export function keepImages({ fleet, images, log }: KeepImagesParts): () => Promise<void> {
  const refused = new Set<string>()
  const add = async ({ hostId, id }: MissingImage): Promise<void> => {
    const record = await images.find(id) // the image can have been removed after the list was read
    if (!record || record.leftOut.includes(hostId)) return
    const { revision } = await fleet.agent(hostId).images.addCustomImage(record.request)
    await fleet.reached(hostId, revision)
  }
  return async () => {
    const records = await images.list()
    for (const { request, leftOut } of records)
      for (const hostId of planMissing(fleet.view, request.id, leftOut)) {
        const key = `${hostId} ${request.id}`
        await add({ hostId, id: request.id }).then(
          () => refused.delete(key),
          (err: unknown) => {
            // Each run tries again. Only the first failure of a host is logged, because some hosts always fail.
            if (!refused.has(key))
              log.warn({ err, host: hostId, image: request.id }, 'could not add a custom image to a host')
            refused.add(key)
          },
        )
      }
  }
}

/** Ids of online hosts that report templates, but not the image `id`. Hosts in `leftOut` are not included. */
function planMissing(view: FleetView, id: string, leftOut: readonly string[]): string[] {
  const told = new Map<string, boolean>()
  for (const { hostId, template } of view.templates())
    told.set(hostId, (told.get(hostId) ?? false) || template.id === id)
  return view
    .hosts()
    .filter(({ id: hostId, state }) => state === 'online' && told.get(hostId) === false)
    .map(({ id: hostId }) => hostId)
    .filter((hostId) => !leftOut.includes(hostId))
}
