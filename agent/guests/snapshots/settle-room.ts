import type { GuestContext } from '../context.js'

/**
 * Ends the room that a restore or a reinstall had, once the kernel has freed the volume that was given up: with less, the
 * guest would find its disk full. The caller sets the bound.
 * @param isBusy whether an operation that may need the room has begun
 * @returns false: not yet
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
