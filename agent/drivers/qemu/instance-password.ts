import { open, readOrCreateKey, seal } from '../../../shared/sealing.js'
import type { Instance } from './plan-seed.js'

/*
 * Systems that take no hash are told their first password in clear. Their volume has it sealed by the host's key: it goes
 * into snapshots and backups, and those may go anywhere.
 */

/** @param keyFile the host's own */
export async function sealPassword(keyFile: string, id: string, password: string): Promise<string> {
  return seal(await readOrCreateKey(keyFile), password, contextOf(id))
}

/** @returns undefined: it has none, or one that another host sealed, whose system has been set up there */
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
