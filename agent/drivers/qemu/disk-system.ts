import type { FirmwareWish } from '../../host/guest/firmware.js'
import { readPlainText } from '../common/plain-file.js'
import { systemOf } from './paths.js'

/**
 * Features that the operating system on a disk needs in its virtual machine. A file next to the disk contains them, so
 * that snapshots and backups include them.
 */
export interface DiskSystem extends FirmwareWish {
  readonly os: 'linux' | 'windows'
}

export const plainSystem: DiskSystem = { os: 'linux', firmware: 'bios', secureBoot: false, tpm: false }

const mostBytes = 4096

/** Reads what the system on a volume requires. The volume can be from a foreign backup. Default: `plainSystem`. */
export async function readDiskSystem(volume: string): Promise<DiskSystem> {
  const text = await readPlainText(systemOf(volume), mostBytes)
  return text === undefined ? plainSystem : parseDiskSystem(text)
}

export function parseDiskSystem(text: string): DiskSystem {
  const found = parseRecord(text)
  const firmware = found['firmware'] === 'uefi' ? 'uefi' : 'bios'
  return {
    os: found['os'] === 'windows' ? 'windows' : 'linux',
    firmware,
    secureBoot: firmware === 'uefi' && found['secureBoot'] === true,
    tpm: found['tpm'] === true,
  }
}

function parseRecord(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {} // the file is damaged
  }
}
