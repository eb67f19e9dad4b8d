import { checkRoom } from '../../storage/room.js'
import { checkCapacity, type HostCapacity } from '../resources/capacity.js'
import type { GuestStore } from '../record/guest-store.js'
import { boundSpace, parseManifest, type Manifest } from './manifest.js'
import { readReceived, sumReceived } from './received-disks.js'
import { refuseOtherAddresses } from './reserve-arrival.js'

const gib = 1024 ** 3

/**
 * Reads a manifest and checks that the guest still fits on this host, because its settings may have changed meanwhile.
 * @throws {BerthError} `bad_stream`, `invalid_field`, `resource_exhausted`, `guest_changed`
 */
export async function checkManifest(
  { store, capacity }: { readonly store: GuestStore; readonly capacity: HostCapacity },
  uuid: string,
  raw: string,
): Promise<Manifest> {
  const manifest = parseManifest(raw)
  checkCapacity(manifest.limits, capacity)
  checkRoom(await capacity.readDisk(), manifest.limits.diskGb * gib)
  refuseOtherAddresses(manifest, store.get(uuid))
  return boundSpace(manifest, sumReceived(readReceived(store, uuid)))
}
