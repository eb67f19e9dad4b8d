import { constants } from 'node:fs'
import { copyFile } from 'node:fs/promises'
import { replaceFile } from '../common/replace-file.js'
import { openPlain } from '../common/plain-file.js'
import { diskOf, firmwareVarsOf, instanceOf } from './paths.js'
import { readPlainText } from '../common/plain-file.js'

const mostInstanceBytes = 2 * 1024 * 1024

/**
 * Gives disk and firmware variables of a volume the content of a snapshot. Both files keep their inodes, because QEMU
 * has them open already. The disk shares its data with the snapshot. Also copies the data for the first boot.
 */
export async function adoptFiles(volume: string, snapshot: string): Promise<void> {
  await cloneInto(diskOf(snapshot), diskOf(volume), constants.COPYFILE_FICLONE_FORCE)
  const hasVars = await isPlain(firmwareVarsOf(volume))
  if (hasVars) await cloneInto(firmwareVarsOf(snapshot), firmwareVarsOf(volume), 0)
  const instance = await readPlainText(instanceOf(snapshot), mostInstanceBytes)
  if (instance !== undefined) await replaceFile(instanceOf(volume), instance, 0o600)
}

/** Both files come from another host, so links are not followed. */
async function cloneInto(from: string, to: string, mode: number): Promise<void> {
  const source = await openPlain(from, constants.O_RDONLY)
  try {
    const target = await openPlain(to, constants.O_RDWR)
    try {
      await copyFile(`/proc/self/fd/${source.fd}`, `/proc/self/fd/${target.fd}`, mode)
      await target.sync()
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

async function isPlain(path: string): Promise<boolean> {
  const file = await openPlain(path, constants.O_RDONLY).catch(() => undefined)
  await file?.close()
  return file !== undefined
}
