import { chmod, copyFile, lchown, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { firmwareFiles } from '../../host/guest/firmware.js'
import { readDiskSystem } from './disk-system.js'
import { firmwareVarsOf, tpmOf } from './paths.js'

/** Creates the firmware variables and the TPM state that a volume does not have yet. Snapshots include both. */
export async function ensureFirmware(volume: string, userId: number): Promise<void> {
  const system = await readDiskSystem(volume)
  const files = firmwareFiles(system)
  if (files) await ensureVars(firmwareVarsOf(volume), files.vars)
  if (system.tpm) await ensureTpm(tpmOf(volume), userId)
}

async function ensureVars(path: string, template: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found?.isFile() && found.nlink === 1) return
  const made = `${path}.new`
  for (const old of [path, made]) await rm(old, { recursive: true, force: true })
  await copyFile(template, made)
  await chmod(made, 0o600)
  await rename(made, path)
}

/** Maximum number of files that a TPM stores. Any further file is deleted. */
const mostFiles = 16

/**
 * Gives the TPM's files to the user of the guest's QEMU. If the volume is from another guest's backup, another user
 * owns them. The content is untrusted, so links are not followed, and everything except regular files is deleted.
 */
async function ensureTpm(path: string, userId: number): Promise<void> {
  if (!(await lstat(path).catch(() => undefined))?.isDirectory()) await rm(path, { force: true })
  await mkdir(path, { recursive: true, mode: 0o700 })
  for (const [at, name] of (await readdir(path)).entries()) {
    const file = join(path, name)
    const found = await lstat(file)
    if (at < mostFiles && found.isFile() && found.nlink === 1) await lchown(file, userId, userId)
    else await rm(file, { recursive: true, force: true })
  }
  await lchown(path, userId, userId)
  await chmod(path, 0o700)
}
