import { writeFile } from 'node:fs/promises'
import { BerthError } from '../../shared/errors.js'
import { treeName } from '../host/guest/beside-tree.js'
import { applyLayout, applyToFetched, mostLayoutBytes } from '../host/disk/file-layout.js'
import type { FetchedBackup, WorkContext } from './contract.js'
import { listLargeFiles, planExcludes, type LargeFile } from './large-files.js'
import type { ResticSnapshot } from './plan-restic.js'
import type { Restic } from './restic.js'

/** Timeout in ms of commands that send or receive a guest's disk. */
export const transferMs = 24 * 3_600_000

/** Name of the file that describes holes and shared data. The file is next to the tree, on the host and in backups. */
export const layoutName = 'layout'

interface FetchContext extends Omit<FetchedBackup, 'id'> {
  readonly restic: Restic
  readonly watch: WorkContext
  readonly snapshot: ResticSnapshot
}

interface Layout {
  /** Path of the layout file, which describes holes and shared data of the tree's files. */
  readonly path: string
  readonly large: readonly LargeFile[]
}

/**
 * Restores a backup into a tree. Large files are fetched one by one. To save space, each large file gets its holes and
 * shared data back before the next one is written.
 */
export async function fetchTree(fetching: FetchContext): Promise<void> {
  const { restic, watch, snapshot, tree, image } = fetching
  const layout = await fetchLayout(fetching)
  if (!layout && (snapshot.backup.savedBytes ?? 0) > 0) await fetching.makeWholeRoom?.()
  const large = layout?.large ?? []
  // All files outside the tree are excluded, because the size limit of the tree would not apply to them.
  const args = [
    'restore',
    snapshot.snapshotId,
    '--target',
    '.',
    ...planExcludes(treeName, large),
    '--verify',
    '--no-lock',
  ]
  await restic.run({ args, tree, timeoutMs: transferMs }).catch(blameHost)
  for (const file of large) await fetchLarge(fetching, layout!.path, file)
  watch.report(1, 'sharing data')
  await applyLayout(tree, { layout: layout?.path, image, apart: large.map(({ index }) => index) }, watch.signal)
}

async function fetchLarge(
  { restic, watch, snapshot, tree }: FetchContext,
  layout: string,
  { path, sizeBytes, offset }: LargeFile,
): Promise<void> {
  const args = ['dump', '--no-lock', snapshot.snapshotId, `/${treeName}/${path}`]
  await restic.run({ args, into: { tree, path, sizeBytes }, timeoutMs: transferMs }).catch(blameHost)
  await applyToFetched(tree, { layout, offset }, watch.signal)
}

/** @returns undefined if the layout is missing (as in backups of older versions), too long or damaged */
async function fetchLayout({ restic, snapshot }: FetchContext): Promise<Layout | undefined> {
  if (snapshot.backup.usedBytes === undefined) return undefined
  const text = await readBackedUp(restic, snapshot.snapshotId)
  const large = text === undefined ? undefined : await listLargeFiles(text)
  if (text === undefined || !large) return undefined
  const path = restic.pathOf(layoutName)
  await writeFile(path, text, { encoding: 'latin1', mode: 0o600 })
  return { path, large }
}

/** Reads the layout file of a backup; undefined if the target cannot supply it. The tree can be restored without it. */
async function readBackedUp(restic: Restic, snapshotId: string): Promise<string | undefined> {
  try {
    const args = ['dump', '--no-lock', snapshotId, `/${layoutName}`]
    const { stdout } = await restic.run({ args, timeoutMs: transferMs, binaryBytes: mostLayoutBytes })
    return stdout // the output can be cut off at `mostLayoutBytes`; a cut between two fields is not noticed
  } catch (error) {
    if (error instanceof BerthError && unreadable.has(error.code)) return undefined
    throw error
  }
}

const unreadable: ReadonlySet<string> = new Set(['backup_damaged', 'backup_missing', 'backup_target_failed'])

/** Changes the error "target full" to "host full", because a restore writes only to the host's disk. */
function blameHost(error: unknown): never {
  if (error instanceof BerthError && error.code === 'backup_target_full')
    throw new BerthError(
      'exhausted',
      'storage_full',
      'the storage pool of the host does not have enough space to fetch the backup',
    )
  throw error
}
