import { basename, dirname } from 'node:path'
import { readPerlProgram } from './perl-program.js'
import { runPerl } from './process.js'

/*
 * Requests of linux/btrfs.h that Debian 12's btrfs-progs cannot make, or make at ten times the cost. Structures are
 * packed as on all 64-bit machines.
 */

const enableSimpleQuota = readPerlProgram('enable-simple-quota')
const snapshotBounded = readPerlProgram('snapshot-bounded')
const destroySnapshot = readPerlProgram('destroy-snapshot')

/**
 * Gone from the tree at once; the commit comes later (after a power loss it may be back), the space too.
 * @throws {CommandError} "Directory not empty" where others are inside
 */
export async function deleteSubvolume(path: string): Promise<void> {
  await runPerl(destroySnapshot, [dirname(path), basename(path)])
}

export async function enableSimpleQuotas(path: string): Promise<void> {
  await runPerl(enableSimpleQuota, [path])
}

/**
 * A writable snapshot that is on the disk when this returns; under simple quotas bounded, in the same
 * transaction. Under classic ones the kernel forgets the bound.
 * @throws {CommandError} also when `directory` has that name already
 */
export async function snapshotWithLimit(
  source: string,
  target: { directory: string; name: string },
  limitBytes: number,
): Promise<void> {
  const args = [source, target.directory, target.name, String(limitBytes)]
  await runPerl(snapshotBounded, args)
}
