import { lstat } from 'node:fs/promises'
import { conflict } from '../../../shared/errors.js'
import { diskOf, firmwareVarsOf } from './paths.js'

/** Maximum size in bytes of firmware variables. OVMF uses at most 4 MiB for code and variables. */
const mostVarsBytes = 4 * 1024 ** 2

/**
 * Refuses a volume from another host if its files are too large. A short stream can create large files, because files
 * can consist of holes.
 * @throws {BerthError} `bad_stream`
 */
export async function refuseLarge(volume: string, diskBytes: number): Promise<void> {
  if ((await sizeOf(diskOf(volume))) > diskBytes || (await sizeOf(firmwareVarsOf(volume))) > mostVarsBytes)
    throw conflict('bad_stream', 'the other host sent a disk that is larger than the disk limit of the guest allows')
}

async function sizeOf(path: string): Promise<number> {
  return (await lstat(path).catch(() => undefined))?.size ?? 0
}
