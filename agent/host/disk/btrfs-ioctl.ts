import { basename, dirname } from 'node:path'
import { runPerl } from '../process/process.js'

/*
 * ioctl requests of linux/btrfs.h for which btrfs-progs in Debian 12 has no command, or only a command that is ten
 * times slower.
 */

async function request(name: string, ...args: (string | bigint | number)[]): Promise<string> {
  const { stdout } = await runPerl('btrfs-volumes', [name, ...args.map(String)])
  return stdout
}

/**
 * Removes a subvolume from the directory tree. The kernel commits the removal and frees the space later, so the
 * subvolume can reappear after a power loss.
 * @throws {CommandError} "Directory not empty" if it contains other subvolumes
 */
export async function deleteSubvolume(path: string): Promise<void> {
  await request('destroy', dirname(path), basename(path))
}

/** Like `deleteSubvolume`, for several subvolumes of one directory, in order. Stops at the first failure. */
export async function deleteSubvolumes(directory: string, names: readonly string[]): Promise<void> {
  await request('destroy', directory, ...names)
}

/** Commits the transaction, so that the kernel starts to free deleted subvolumes. Does not write dirty files. */
export async function commitTransaction(path: string): Promise<void> {
  await request('commit', path)
}

export async function enableSimpleQuotas(path: string): Promise<void> {
  await runPerl('enable-simple-quota', [path])
}

/** A quota group that limits several subvolumes together. Requires simple quotas. */
export interface BoundedGroup {
  /** Number of the group. The upper 16 bits contain its level. */
  readonly id: bigint
  /** Limit of the group. 0: unlimited. Undefined: unchanged. */
  readonly limitBytes?: number
}

/**
 * Creates the quota group and takes a snapshot that belongs to the group from the beginning. Returns when group and
 * snapshot are on the disk.
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
 * Creates the quota group, and an empty subvolume that is a member of it from the beginning.
 * @throws {CommandError} also if the name already exists in `directory`
 */
export async function createSubvolumeInGroup(
  { directory, name }: { directory: string; name: string },
  group?: BoundedGroup,
): Promise<void> {
  await request('create', directory, name, group?.id ?? '', group?.limitBytes ?? '')
}

/** Creates the group with its limit, and adds the subvolume, so that its space counts in the group. Idempotent. */
export async function joinGroup(path: string, { id, limitBytes }: BoundedGroup): Promise<void> {
  await request('join', path, id, limitBytes ?? '')
}

/**
 * Limits what a subvolume references (classic quotas) or owns (simple quotas), even to less than its present use.
 * @param bytes 0: removes the limit
 */
export async function setLimit(path: string, bytes: number): Promise<void> {
  await request('bound', path, bytes)
}

export async function readSubvolumeId(path: string): Promise<number> {
  return Number(await request('id', path))
}

/** Removes the quota groups in `ids` that have no members. @param path any directory of the filesystem */
export async function removeEmptyGroups(path: string, ids: readonly bigint[]): Promise<void> {
  await request('ungroup', path, ...ids)
}

/** `done`: `next` is older than `current`, so the names are already exchanged. `nothing`: `next` does not exist. */
export type ExchangeResult = 'exchanged' | 'done' | 'nothing'

/**
 * Exchanges the names of two subvolumes of one directory atomically, if `next` is the newer one. If `current` does not
 * exist, renames `next`. Returns when the change is on the disk.
 */
export async function exchangeSubvolumes(
  directory: string,
  { current, next }: { current: string; next: string },
): Promise<ExchangeResult> {
  return (await request('exchange', directory, current, next)) as ExchangeResult
}
