import { readdir, readFile, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { exists } from './mount.js'
import { run } from './process.js'

/*
 * btrfs(8) and its sysfs tree. Figures are read from /sys/fs/btrfs without a process
 * (kernel: Documentation/ABI/testing/sysfs-fs-btrfs; qgroups since 5.9).
 */

const sysfs = '/sys/fs/btrfs'

export type QuotaMode = 'classic' | 'simple' | 'off'

export interface Subvolume {
  readonly id: number
  /** Relative to the top of the filesystem. */
  readonly path: string
}

/** Never forced: mkfs.btrfs refuses what it recognises as used. */
export async function format(path: string, label: string): Promise<void> {
  await run('mkfs.btrfs', ['--quiet', '--label', label, path], { timeoutMs: 600_000 })
}

export async function createSubvolume(path: string): Promise<void> {
  await run('btrfs', ['--quiet', 'subvolume', 'create', path])
}

/** Forced: a guest may have marked its subvolume as received, which btrfs(8) would not change back. */
export async function setReadOnly(path: string, readOnly: boolean): Promise<void> {
  await run('btrfs', ['property', 'set', '-f', '-t', 'subvol', path, 'ro', String(readOnly)])
}

/** Everything written so far is on the disk afterwards. */
export async function syncFilesystem(path: string): Promise<void> {
  await run('btrfs', ['filesystem', 'sync', path], { timeoutMs: 600_000 })
}

/** Subvolumes directly inside the subvolume that `path` is in, none from deeper (guests name those). */
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
  /** The kernel is still taking deleted subvolumes apart; their qgroups cannot go before. */
  readonly unfinished: boolean
  /** What is said of those that do not go; empty: none is left. */
  readonly errors: string
}

/** Removes the qgroups of subvolumes that are no more: kernels before 6.11 leave them, later ones some. */
export async function clearStaleQgroups(path: string): Promise<StaleQgroups> {
  const maxOutputBytes = 64 * 1024 * 1024
  const deleted = await run('btrfs', ['subvolume', 'list', '-d', path], { maxOutputBytes })
  const clear = ['--quiet', 'qgroup', 'clear-stale', path]
  const { stderr } = await run('btrfs', clear, { maxOutputBytes, okCodes: [0, 1] }) // of the last one alone
  return { unfinished: deleted.stdout !== '', errors: stderr }
}

export async function enableClassicQuotas(path: string): Promise<void> {
  await run('btrfs', ['quota', 'enable', path])
}

export async function startRescan(path: string): Promise<void> {
  await run('btrfs', ['quota', 'rescan', path], { okCodes: [0, 1] }) // 1: one runs already
}

export async function kernelHasSimpleQuota(): Promise<boolean> {
  return exists(`${sysfs}/features/simple_quota`)
}

/** A mounted btrfs as sysfs shows it. */
export class BtrfsView {
  private constructor(readonly fsid: string) {}

  /** @param device any device of the filesystem, e.g. the source of its mount */
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

  /** Kernels before 6.7 have no `mode` and know classic quotas only. */
  async quotaMode(): Promise<QuotaMode> {
    if (!(await exists(`${sysfs}/${this.fsid}/qgroups/0_5`))) return 'off'
    return (await this.#read('qgroups/mode')) === 'squota' ? 'simple' : 'classic'
  }

  async quotaInconsistent(): Promise<boolean> {
    return (await this.#read('qgroups/inconsistent')) === '1'
  }

  /**
   * Without it a kernel drops large subtrees unaccounted, and quotas bind nobody until a rescan (linux 6.2,
   * commit "btrfs: qgroup: introduce BTRFS_QGROUP_RUNTIME_FLAG_NO_ACCOUNTING").
   */
  async accountEverySubtree(): Promise<void> {
    const file = `${sysfs}/${this.fsid}/qgroups/drop_subtree_threshold`
    if (await exists(file)) await writeFile(file, '8')
  }

  /** Quota groups of that level, by what follows it: `190/5` is `5` of level 190. */
  async listGroups(level: number): Promise<bigint[]> {
    const names = await readdir(`${sysfs}/${this.fsid}/qgroups`)
    return names.flatMap((name) => (name.startsWith(`${level}_`) ? BigInt(name.split('_')[1]!) : []))
  }

  /**
   * Bytes that count for the group's bound; undefined when there is no such group (any more).
   * @param group `0/ID` of a subvolume
   */
  async referencedBytes(group: string): Promise<number | undefined> {
    const text = await this.#read(`qgroups/${group.replace('/', '_')}/referenced`)
    return text === undefined ? undefined : Number(text)
  }

  /** 0: not bounded; undefined when there is no such group (any more). */
  async limitBytes(group: string): Promise<number | undefined> {
    const [flags, limit] = await Promise.all(
      ['limit_flags', 'max_referenced'].map((name) =>
        this.#read(`qgroups/${group.replace('/', '_')}/${name}`),
      ),
    )
    if (flags === undefined) return undefined
    return (Number(flags) & 1) === 0 ? 0 : Number(limit) // linux/btrfs.h: BTRFS_QGROUP_LIMIT_MAX_RFER
  }

  async #read(name: string): Promise<string | undefined> {
    try {
      return (await readFile(`${sysfs}/${this.fsid}/${name}`, 'utf8')).trimEnd()
    } catch {
      return undefined // not known to this kernel, or just removed
    }
  }
}
