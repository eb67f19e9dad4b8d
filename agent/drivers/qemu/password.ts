import { randomUUID } from 'node:crypto'
import { hashPassword } from '../../host/guest/password-hash.js'
import type { PasswordResult } from '../contract.js'
import { readInstance, writeInstance } from './disk.js'
import { readDiskSystem } from './disk-system.js'
import { setPasswordInside, setWindowsPassword } from './inside.js'
import type { RunPaths } from './paths.js'

export interface PasswordContext {
  readonly run: RunPaths
  readonly running: boolean
  readonly volume: string
  /** Writes the guest's seed: the CD from which its system reads name, addresses and login. */
  readonly tell: () => Promise<void>
}

/**
 * Sets the password of root or the administrator through the guest agent. A Linux guest without an agent gets the
 * password at its next boot.
 * @throws {BerthError} `guest_refused`
 */
export async function setPassword(context: PasswordContext, password: string): Promise<PasswordResult> {
  const { os } = await readDiskSystem(context.volume)
  if (os !== 'windows') return setRootPassword(context, await hashPassword(password))
  const { run, running } = context
  await setWindowsPassword(run, { running, password })
  await forgetFirstPassword(context)
  return 'applied'
}

async function setRootPassword(context: PasswordContext, passwordHash: string): Promise<PasswordResult> {
  const { run, running, volume, tell } = context
  const applied = running && (await setPasswordInside(run, { passwordHash }))
  const { reset: before, ...instance } = await readInstance(volume)
  // `reset` is a password that the next boot sets. It is not needed if the new password works already.
  const changed = applied ? { passwordHash } : { reset: { serial: randomUUID().slice(0, 8), passwordHash } }
  await writeInstance(volume, { ...instance, ...changed })
  if (running && !(applied && before === undefined)) await tell()
  return applied ? 'applied' : 'at_next_start'
}

/** Deletes the stored initial password. The system does not need it any more if the guest agent answers. */
async function forgetFirstPassword({ volume, tell }: PasswordContext): Promise<void> {
  const { sealedPassword, ...instance } = await readInstance(volume)
  if (sealedPassword === undefined) return
  await writeInstance(volume, instance)
  await tell()
}
