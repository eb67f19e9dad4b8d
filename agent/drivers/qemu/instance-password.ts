import { open, readOrCreateKey, seal } from '../../../shared/sealing.js'
import type { Instance } from './plan-seed.js'

/*
 * Systems that accept no hash get their first password in clear text. The volume stores it encrypted with the host's
 * key, because it is part of snapshots and backups, which may leave the host.
 */

/** Encrypts the first password. @param keyFile path of the host's key */
export async function sealPassword(keyFile: string, id: string, password: string): Promise<string> {
  return seal(await readOrCreateKey(keyFile), password, contextOf(id))
}

/**
 * Decrypts the first password.
 * @returns undefined if there is none, or if another host encrypted it, on which the system was then set up
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
