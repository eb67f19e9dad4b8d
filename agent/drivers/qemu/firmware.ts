import { chmod, copyFile, lchown, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { firmwareFiles } from '../../host/guest/firmware.js'
import { readDiskSystem } from './disk-system.js'
import { firmwareVarsOf, tpmOf } from './paths.js'

/** Variables and TPM of the volume's own, from its first start on: they go with its snapshots. */
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

/** All that a TPM keeps; what is more is none of it. */
const mostFiles = 16

/**
 * Its files belong to the user that the guest's QEMU runs as, whom a volume from another guest's backup does not know.
 * What is there may be anybody's: links are not followed, and what is no plain file goes.
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
