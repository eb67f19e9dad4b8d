import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { patienceMs } from '../wait.js'

const folder = join(import.meta.dirname, 'tiny-guest')
/** Offset in bytes of the data file system on the disk that make.sh builds. It is after the boot partition. */
export const tinyDataOffset = 65 * 2 ** 20
const cache = '/var/cache/berth-test'

/** Returns the path of a disk that boots to SSH in 4 s. It is built in 2 s unless an earlier run has cached it. */
export function tinyDisk(): string {
  return kept('tiny', 'make.sh', [])
}

/** Like `tinyDisk`, but for a UEFI firmware that verifies signatures. */
export function tinyUefiDisk(): string {
  return kept('tiny-uefi', 'make-uefi.sh', [tinyDisk()])
}

function kept(name: string, program: string, args: readonly string[]): string {
  const hash = createHash('sha256')
  for (const name of readdirSync(folder).sort()) hash.update(readFileSync(join(folder, name)))
  const disk = join(cache, `${name}-${hash.digest('hex').slice(0, 16)}.raw`)
  if (existsSync(disk)) return disk
  mkdirSync(cache, { recursive: true, mode: 0o700 })
  const made = `${disk}.${process.pid}`
  execFileSync(join(folder, program), [...args, made], { stdio: 'ignore', timeout: patienceMs })
  renameSync(made, disk)
  return disk
}

/** Installs `tinyDisk` in place of a template's image. A running agent uses it only after a restart. */
export function installTinyImage(pool: string, templateId: string): void {
  const path = join(pool, 'images', templateId)
  if (existsSync(path)) return
  execFileSync('btrfs', ['-q', 'subvolume', 'create', path])
  execFileSync('chattr', ['+C', path])
  execFileSync('cp', ['--sparse=always', tinyDisk(), join(path, 'disk.raw')])
  execFileSync('btrfs', ['property', 'set', path, 'ro', 'true'])
}
