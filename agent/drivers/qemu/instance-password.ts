import { open, readOrCreateKey, seal } from '../../../shared/sealing.js'
import type { Instance } from './plan-seed.js'

/*
 * A system that accepts no hash gets its initial password in clear text. The volume stores the password encrypted with
 * the host's key, because snapshots and backups of the volume can leave the host.
 */

/** Encrypts the initial password of a guest's system. @param keyFile path of the host's key */
export async function sealPassword(keyFile: string, id: string, password: string): Promise<string> {
  return seal(await readOrCreateKey(keyFile), password, contextOf(id))
}

/**
 * Decrypts the initial password of a guest's system.
 * @returns undefined if there is no initial password, or if another host encrypted it
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
