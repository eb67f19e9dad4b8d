import { basename, dirname } from 'node:path'
import { runPerl } from '../process/process.js'

/* Requests of linux/btrfs.h that Debian 12's btrfs-progs cannot make, or only at ten times the cost. */

async function request(name: string, ...args: (string | bigint | number)[]): Promise<string> {
  const { stdout } = await runPerl('btrfs-volumes', [name, ...args.map(String)])
  return stdout
}

/**
 * Removes a subvolume from the tree at once. Commit and freeing of space follow later. After a power loss it may
 * reappear.
 * @throws {CommandError} "Directory not empty" if it contains other subvolumes
 */
export async function deleteSubvolume(path: string): Promise<void> {
  await request('destroy', dirname(path), basename(path))
}

/** Like `deleteSubvolume` for several in one directory, in order. Stops at the first failure. */
export async function deleteSubvolumes(directory: string, names: readonly string[]): Promise<void> {
  await request('destroy', directory, ...names)
}

/** Commits the transaction, after which the kernel starts to free deleted subvolumes. Dirty files are not written out. */
export async function commitTransaction(path: string): Promise<void> {
  await request('commit', path)
}

export async function enableSimpleQuotas(path: string): Promise<void> {
  await runPerl('enable-simple-quota', [path])
}

/** A quota group that limits several subvolumes together; simple quotas only. */
export interface BoundedGroup {
  /** The kernel's number of the group: the level is in the upper 16 bits. */
  readonly id: bigint
  /** 0: unlimited; undefined: unchanged. */
  readonly limitBytes?: number
}

/**
 * Takes a snapshot, creates the group, and makes the snapshot a member from its first moment. All is on the disk when
 * this returns.
 * @throws {CommandError} also if the name already exists in `directory`
 */
export async function snapshotSubvolume(
  source: string,
  target: { directory: string; name: string; readOnly: boolean },
  group?: BoundedGroup,
): Promise<void> {
  const { directory, name, readOnly } = target
  const flag = readOnly ? 'read-only' : ''
  await request('snapshot', source, directory, name, flag, group?.id ?? '', group?.limitBytes ?? '')
}

/**
 * Creates the group, and an empty subvolume that is a member from its first moment.
 * @throws {CommandError} also if the name already exists in `directory`
 */
export async function createSubvolumeInGroup(
  { directory, name }: { directory: string; name: string },
  group?: BoundedGroup,
): Promise<void> {
  await request('create', directory, name, group?.id ?? '', group?.limitBytes ?? '')
}

/**
 * Creates the group with its limit, and makes the subvolume a member, including the space it already uses. Idempotent.
 */
export async function joinGroup(path: string, { id, limitBytes }: BoundedGroup): Promise<void> {
  await request('join', path, id, limitBytes ?? '')
}

/**
 * Limits the space that the subvolume references (classic quotas) or owns (simple quotas). Works on a full one, too. 0:
 * removes the limit.
 */
export async function setLimit(path: string, bytes: number): Promise<void> {
  await request('bound', path, bytes)
}

export async function readSubvolumeId(path: string): Promise<number> {
  return Number(await request('id', path))
}

/** Removes the groups that have no members. @param path any directory of the filesystem */
export async function removeEmptyGroups(path: string, ids: readonly bigint[]): Promise<void> {
  await request('ungroup', path, ...ids)
}

/** `done`: `next` is already the older one, as after an exchange; `nothing`: `next` does not exist. */
export type ExchangeResult = 'exchanged' | 'done' | 'nothing'

/**
 * Exchanges the names of two subvolumes of one directory atomically if `next` is the newer one; it is on the disk when
 * this returns. Without a `current` it renames `next`.
 */
export async function exchangeSubvolumes(
  directory: string,
  { current, next }: { current: string; next: string },
): Promise<ExchangeResult> {
  return (await request('exchange', directory, current, next)) as ExchangeResult
}
