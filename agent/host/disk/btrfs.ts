import { readdir, readFile, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { exists } from './mount.js'
import { run } from '../process/process.js'

/*
 * This module runs btrfs(8). It reads figures from sysfs without a process. sysfs contains qgroups since Linux 5.9
 * (kernel documentation: ABI/testing/sysfs-fs-btrfs).
 */

const sysfs = '/sys/fs/btrfs'

export type QuotaMode = 'classic' | 'simple' | 'off'

export interface Subvolume {
  readonly id: number
  /** Path relative to the top-level subvolume of the filesystem. */
  readonly path: string
}

/** Creates a filesystem. Without --force, mkfs.btrfs refuses a device that seems to contain data. */
export async function format(path: string, label: string): Promise<void> {
  await run('mkfs.btrfs', ['--quiet', '--label', label, path], { timeoutMs: 600_000 })
}

export async function createSubvolume(path: string): Promise<void> {
  await run('btrfs', ['--quiet', 'subvolume', 'create', path])
}

/** Changes the property `ro`. Uses `-f`, because a guest may have marked its subvolume as received. */
export async function setReadOnly(path: string, readOnly: boolean): Promise<void> {
  await run('btrfs', ['property', 'set', '-f', '-t', 'subvol', path, 'ro', String(readOnly)])
}

/** True if the subvolume has the property `ro`. btrfs-receive(8) sets `ro` at its end, even after a broken stream. */
export async function isReadOnly(path: string): Promise<boolean> {
  const { stdout } = await run('btrfs', ['property', 'get', '-t', 'subvol', path, 'ro'])
  return stdout.trim() === 'ro=true'
}

/**
 * Turns off copy-on-write for files that are later created in the directory, because disks of virtual machines would
 * become fragmented. Snapshots keep the attribute.
 */
export async function disableCopyOnWrite(directory: string): Promise<void> {
  await run('chattr', ['+C', directory])
}

/** Returns when all earlier writes are on the disk. */
export async function syncFilesystem(path: string): Promise<void> {
  await run('btrfs', ['filesystem', 'sync', path], { timeoutMs: 600_000 })
}

/** Lists the subvolumes directly inside the subvolume of `path`. Omits deeper ones, whose names guests can choose. */
export async function listSubvolumes(path: string): Promise<Subvolume[]> {
  const { stdout } = await run('btrfs', ['subvolume', 'list', '-o', path], {
    maxOutputBytes: 64 * 1024 * 1024,
  })
  return parseSubvolumes(stdout)
}

export function parseSubvolumes(text: string): Subvolume[] {
  return [...text.matchAll(/^ID (\d+) gen \d+ top level \d+ path (.+)$/gm)].map(([, id = '', path = '']) => ({
    id: Number(id),
    path,
  }))
}

export interface StaleQgroups {
  /** True while the kernel is cleaning up deleted subvolumes. Meanwhile, their qgroups cannot be removed. */
  readonly unfinished: boolean
  /** Messages about qgroups that could not be removed. Empty: all were removed. */
  readonly errors: string
}

/** Lists the ids of deleted subvolumes that the kernel is still freeing. */
export async function listDeletedSubvolumes(path: string): Promise<number[]> {
  const { stdout } = await run('btrfs', ['subvolume', 'list', '-d', path], {
    maxOutputBytes: 64 * 1024 * 1024,
  })
  return [...stdout.matchAll(/^ID (\d+) /gm)].map(([, id]) => Number(id))
}

/** Removes qgroups of deleted subvolumes. Linux before 6.11 leaves all such qgroups, later versions leave some. */
export async function clearStaleQgroups(path: string): Promise<StaleQgroups> {
  const deleted = await listDeletedSubvolumes(path)
  const clear = ['--quiet', 'qgroup', 'clear-stale', path]
  const options = { maxOutputBytes: 64 * 1024 * 1024, okCodes: [0, 1] }
  const { stderr } = await run('btrfs', clear, options) // stderr contains only the last failure
  return { unfinished: deleted.length > 0, errors: stderr }
}

export async function enableClassicQuotas(path: string): Promise<void> {
  await run('btrfs', ['quota', 'enable', path])
}

export async function startRescan(path: string): Promise<void> {
  await run('btrfs', ['quota', 'rescan', path], { okCodes: [0, 1] }) // code 1 means that a rescan is already running
}

export async function kernelHasSimpleQuota(): Promise<boolean> {
  return exists(`${sysfs}/features/simple_quota`)
}

/** Reads a mounted btrfs filesystem from sysfs. */
export class BtrfsView {
  private constructor(readonly fsid: string) {}

  /** @param device any device of the filesystem, such as the source of its mount */
  static async find(device: string): Promise<BtrfsView | undefined> {
    const name = basename(device)
    for (const fsid of await readdir(sysfs))
      if (await exists(`${sysfs}/${fsid}/devices/${name}`)) return new BtrfsView(fsid)
    return undefined
  }

  async label(): Promise<string> {
    return (await this.#read('label')) ?? ''
  }

  async hasDevice(device: string): Promise<boolean> {
    return exists(`${sysfs}/${this.fsid}/devices/${basename(device)}`)
  }

  /**
   * Returns the bytes that count towards the group's limit now: `referencedBytes`, plus data that the kernel will write
   * to the disk within about 30 s. Undefined if the group does not exist.
   */
  async countedBytes(group: string): Promise<number | undefined> {
    const reserved = Number((await this.#read(`qgroups/${group.replace('/', '_')}/rsv_data`)) ?? 0)
    const referenced = await this.referencedBytes(group)
    return referenced === undefined ? undefined : referenced + reserved
  }

  /** Returns the mode of quotas. Linux before 6.7 has only classic quotas and no file `mode`. */
  async quotaMode(): Promise<QuotaMode> {
    if (!(await exists(`${sysfs}/${this.fsid}/qgroups/0_5`))) return 'off'
    return (await this.#read('qgroups/mode')) === 'squota' ? 'simple' : 'classic'
  }

  async quotaInconsistent(): Promise<boolean> {
    return (await this.#read('qgroups/inconsistent')) === '1'
  }

  /**
   * Makes the kernel update the quotas for every deleted subtree. By default, the kernel skips this for large subtrees,
   * and then does not enforce quotas until a rescan (Linux 6.2, BTRFS_QGROUP_RUNTIME_FLAG_NO_ACCOUNTING).
   */
  async accountEverySubtree(): Promise<void> {
    const file = `${sysfs}/${this.fsid}/qgroups/drop_subtree_threshold`
    if (await exists(file)) await writeFile(file, '8')
  }

  /** Lists the numbers of the quota groups at a level. The number of `190/5` is 5. */
  async listGroups(level: number): Promise<bigint[]> {
    const names = await readdir(`${sysfs}/${this.fsid}/qgroups`)
    return names.flatMap((name) => (name.startsWith(`${level}_`) ? BigInt(name.split('_')[1]!) : []))
  }

  /**
   * Returns the bytes that count towards the group's limit; undefined if the group does not exist.
   * @param group `0/ID` of a subvolume
   */
  referencedBytes(group: string): Promise<number | undefined> {
    return this.#readGroup(group, 'referenced')
  }

  /** Returns the bytes that only this group references, as of the last commit. For classic quotas. */
  exclusiveBytes(group: string): Promise<number | undefined> {
    return this.#readGroup(group, 'exclusive')
  }

  /** Returns the group's limit. 0: unlimited; undefined if the group does not exist. */
  async limitBytes(group: string): Promise<number | undefined> {
    const [flags, limit] = await Promise.all(
      ['limit_flags', 'max_referenced'].map((name) => this.#read(`qgroups/${group.replace('/', '_')}/${name}`)),
    )
    if (flags === undefined) return undefined
    return (Number(flags) & 1) === 0 ? 0 : Number(limit) // the flag 1 is BTRFS_QGROUP_LIMIT_MAX_RFER
  }

  async #readGroup(group: string, figure: string): Promise<number | undefined> {
    const text = await this.#read(`qgroups/${group.replace('/', '_')}/${figure}`)
    return text === undefined ? undefined : Number(text)
  }

  async #read(name: string): Promise<string | undefined> {
    try {
      return (await readFile(`${sysfs}/${this.fsid}/${name}`, 'utf8')).trimEnd()
    } catch {
      return undefined // this kernel does not provide the file, or its quota group was removed
    }
  }
}
