import { arch } from 'node:os'
import { basename, dirname } from 'node:path'
import { readPerlProgram } from './perl-program.js'
import { runPerl } from './process.js'

/*
 * Requests of linux/btrfs.h that Debian 12's btrfs-progs cannot make, or make at ten times the cost.
 */

const enableSimpleQuota = readPerlProgram('enable-simple-quota')
const volumesProgram = readPerlProgram('btrfs-volumes')

async function request(name: string, ...args: (string | bigint | number)[]): Promise<string> {
  const { stdout } = await runPerl(volumesProgram, [name, ...args.map(String)])
  return stdout
}

/**
 * Gone from the tree at once; the commit comes later (after a power loss it may be back), the space too.
 * @throws {CommandError} "Directory not empty" where others are inside
 */
export async function deleteSubvolume(path: string): Promise<void> {
  await request('destroy', dirname(path), basename(path))
}

/** As `deleteSubvolume`, those of one directory in order, up to the first that fails. */
export async function deleteSubvolumes(directory: string, names: readonly string[]): Promise<void> {
  await request('destroy', directory, ...names)
}

export async function enableSimpleQuotas(path: string): Promise<void> {
  await runPerl(enableSimpleQuota, [path])
}

/** A quota group above those of subvolumes, with the bound of all of them together; simple quotas only. */
export interface BoundedGroup {
  /** As the kernel has it: the level in the upper 16 bits. */
  readonly id: bigint
  /** 0: not bounded; undefined: stays as it is. */
  readonly limitBytes?: number
}

/**
 * A snapshot that is on the disk when this returns; from its first moment in the group, which is made.
 * @throws {CommandError} also when `directory` has that name already
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
 * An empty subvolume, from its first moment in the group, which is made.
 * @throws {CommandError} also when `directory` has that name already
 */
export async function createSubvolume(
  { directory, name }: { directory: string; name: string },
  group?: BoundedGroup,
): Promise<void> {
  await request('create', directory, name, group?.id ?? '', group?.limitBytes ?? '')
}

/** Makes the group, with its bound, and the subvolume a member, with what it has used. Safe to repeat. */
export async function joinGroup(path: string, { id, limitBytes }: BoundedGroup): Promise<void> {
  await request('join', path, id, limitBytes ?? '')
}

/** Those that still have members stay. @param path any directory of the filesystem */
export async function removeEmptyGroups(path: string, ids: readonly bigint[]): Promise<void> {
  await request('ungroup', path, ...ids)
}

/** `done`: `next` is the older one, as after an exchange; `nothing`: there is no `next`. */
export type ExchangeResult = 'exchanged' | 'done' | 'nothing'

/** Numbers of the system call (asm/unistd.h), which differ, unlike those of later ones. */
const renameat2: Readonly<Record<string, number>> = { x64: 316, arm64: 276, riscv64: 276, ppc64: 357 }

/**
 * Gives `current` the newer of two subvolumes of one directory, and `next` the older, in one step; it is on the disk
 * when this returns. Without a `current` it is a plain rename.
 */
export async function exchangeSubvolumes(
  directory: string,
  { current, next }: { current: string; next: string },
): Promise<ExchangeResult> {
  const call = renameat2[arch()]
  if (call === undefined) throw new Error(`the number of renameat2(2) is not known on ${arch()}`)
  return (await request('exchange', call, directory, current, next)) as ExchangeResult
}
