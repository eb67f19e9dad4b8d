import { open, readOrCreateKey, seal } from '../../../shared/sealing.js'
import type { Instance } from './plan-seed.js'

/*
 * Systems that accept no hash get their first password in clear text. The volume stores it encrypted with the host's
 * key, because it is part of snapshots and backups, which may leave the host.
 */

/** @param keyFile path of the host's own key */
export async function sealPassword(keyFile: string, id: string, password: string): Promise<string> {
  return seal(await readOrCreateKey(keyFile), password, contextOf(id))
}

/**
 * @returns undefined if there is no password, or if another host encrypted it, in which case the system was set up
 * there
 */
export async function openPassword(
  keyFile: string,
  { id, sealedPassword }: Pick<Instance, 'id' | 'sealedPassword'>,
): Promise<string | undefined> {
  if (typeof sealedPassword !== 'string') return undefined
  const key = await readOrCreateKey(keyFile)
  try {
    return open(key, sealedPassword, contextOf(id))
  } catch {
    return undefined
  }
}

function contextOf(id: string): string {
  return `first password of ${id}`
}
