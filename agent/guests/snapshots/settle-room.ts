import type { GuestContext } from '../context.js'

/**
 * Records that a restore or a reinstall no longer needs a higher disk limit. Waits until the kernel has freed the
 * discarded volume, because the guest would otherwise find its disk full. The caller sets the limit on the host.
 * @param isBusy returns true if an operation has begun that possibly needs the space
 * @returns false if the volume is not freed yet
 */
export async function settleRoom(
  { store, volumes }: Pick<GuestContext, 'store' | 'volumes'>,
  uuid: string,
  isBusy: () => boolean = () => false,
): Promise<boolean> {
  if (!hasRoom(store, uuid)) return true
  if (!(await volumes.areFreed(uuid)) || isBusy()) return false
  if (hasRoom(store, uuid)) store.update(uuid, { fetchedBytes: 0, nextExtraBytes: 0 })
  return true
}

function hasRoom(store: GuestContext['store'], uuid: string): boolean {
  return (store.find(uuid)?.fetchedBytes ?? 0) > 0
}
