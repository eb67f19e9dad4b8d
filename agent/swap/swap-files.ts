import {
  chmod,
  lstat,
  mkdir,
  open,
  readlink,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
  symlink,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { conflict } from '../../shared/errors.js'
import { syncDirectory, writeFileAtomic } from '../../shared/files.js'
import type { AgentConfig } from '../config.js'
import { createSubvolume } from '../host/disk/btrfs.js'
import { readMemory } from '../host/process/memory.js'
import { exists } from '../host/disk/mount.js'
import { CommandError } from '../host/process/process.js'
import {
  allocate,
  forbidCopyOnWrite,
  formatSwap,
  readSwapLabel,
  readSwaps,
  swapOff,
  swapOn,
  type SwapArea,
} from '../host/disk/swap.js'
import { storageError } from '../storage/errors.js'
import type { HostSwap, SwapSlot, SwapFile, SwapState } from './contract.js'
import { unitFilesOf, unitTextOf } from './plan-unit.js'

/** Bytes that are added to the requested size, because the kernel uses the first page of the file as header. */
const headerBytes = 64 * 1024
/** Type of btrfs in statfs(2). */
const btrfsMagic = 0x9123683e

/** Label that distinguishes the agent's swap files from others. */
const label = 'berth-swap'

const slots: readonly SwapSlot[] = [0, 1]

/** Manages swap files. Each has a systemd unit that activates the file at boot. */
export class SwapFiles implements HostSwap {
  readonly #file: string
  readonly #units: string

  constructor({ state_dir: stateDir, swap }: Pick<AgentConfig, 'state_dir' | 'swap'>) {
    this.#file = swap.file || join(stateDir, 'swap', 'swapfile')
    this.#units = swap.unit_dir
  }

  pathOf(slot: SwapSlot): string {
    return slot === 0 ? this.#file : `${this.#file}.2`
  }

  async read(): Promise<SwapState> {
    const areas = await readSwaps()
    const files = await Promise.all(slots.map((slot) => this.#find(slot, areas)))
    const sum = (bytesOf: (area: SwapArea) => number): number => areas.reduce((total, area) => total + bytesOf(area), 0)
    return {
      files: files.flatMap((file) => file ?? []),
      totalBytes: sum(({ sizeBytes }) => sizeBytes),
      usedBytes: sum(({ usedBytes }) => usedBytes),
    }
  }

  async #find(slot: SwapSlot, areas: readonly SwapArea[]): Promise<SwapFile | undefined> {
    const path = this.pathOf(slot)
    if (!(await isOwn(path))) return undefined
    const area = await this.#findArea(slot, areas)
    const sizeBytes = Math.max(0, (await stat(path)).size - headerBytes)
    const kept = await exists(unitFilesOf(this.#units, path).link)
    return { slot, path, sizeBytes, active: area !== undefined, kept, usedBytes: area?.usedBytes ?? 0 }
  }

  async readRoom(): Promise<{ totalBytes: number; usedBytes: number }> {
    const { blocks, bavail, bsize } = await statfs(await this.#readAncestor())
    return { totalBytes: blocks * bsize, usedBytes: (blocks - bavail) * bsize }
  }

  readMemory = readMemory

  /** Returns the deepest existing directory on the swap file's path. */
  async #readAncestor(): Promise<string> {
    let directory = dirname(this.#file)
    while (!(await exists(directory))) directory = dirname(directory)
    return directory
  }

  async make(slot: SwapSlot, sizeBytes: number, signal: AbortSignal): Promise<void> {
    const path = this.pathOf(slot)
    const found = await stat(path).catch(absent)
    if (found && !(await isOwn(path)))
      throw conflict('invalid_state', `${path} is not a swap file that the agent created`)
    if (found?.size === sizeBytes + headerBytes) return
    await this.remove(slot)
    const isBtrfs = await this.#prepareDirectory()
    try {
      await makeSwapFile(unfinished(path), { bytes: sizeBytes + headerBytes, isBtrfs, signal })
      await rename(unfinished(path), path)
      await syncDirectory(dirname(path))
    } catch (error) {
      await rm(unfinished(path), { force: true })
      signal.throwIfAborted()
      throw storageError(error, `a swap file of ${Math.ceil(sizeBytes / 1024 ** 2)} MB could not be created`)
    }
  }

  /**
   * Creates the directory. On btrfs, the directory is a separate subvolume, because a subvolume with an active swap
   * file cannot be snapshotted (btrfs(5)). @returns true if the file system is btrfs
   */
  async #prepareDirectory(): Promise<boolean> {
    const directory = dirname(this.#file)
    await mkdir(dirname(directory), { recursive: true, mode: 0o711 })
    const isBtrfs = (await statfs(await this.#readAncestor())).type === btrfsMagic
    // an existing directory keeps its mode, because the operator may have created it
    if (await exists(directory)) return isBtrfs
    await (isBtrfs ? createSubvolume(directory) : mkdir(directory))
    await chmod(directory, 0o700)
    return isBtrfs
  }

  async use(slot: SwapSlot): Promise<void> {
    if (await this.#findArea(slot, await readSwaps())) return
    const path = this.pathOf(slot)
    try {
      await swapOn(path)
    } catch (cause) {
      if (!(cause instanceof CommandError && /Invalid argument|not permitted/.test(cause.stderr))) throw cause
      throw conflict('swap_unsupported', `the host cannot use a swap file at ${path}: ${cause.stderr.trim()}`)
    }
  }

  async release(slot: SwapSlot, signal?: AbortSignal): Promise<void> {
    const path = this.pathOf(slot)
    if ((await isOwn(path)) && (await this.#findArea(slot, await readSwaps()))) await swapOff(path, signal)
  }

  /** Finds the file among the kernel's swap areas. Resolves links in the file's path, because the kernel does, too. */
  async #findArea(slot: SwapSlot, areas: readonly SwapArea[]): Promise<SwapArea | undefined> {
    const real = await realpath(this.pathOf(slot)).catch(absent)
    return areas.find(({ path }) => path === real)
  }

  async keep(slot: SwapSlot, kept: boolean): Promise<void> {
    const path = this.pathOf(slot)
    const { unit, link, target } = unitFilesOf(this.#units, path)
    if (kept) {
      await mkdir(dirname(link), { recursive: true, mode: 0o755 })
      await writeFileAtomic(unit, unitTextOf(path), 0o644)
      if ((await readlink(link).catch(() => '')) === target) return
      await rm(link, { force: true })
      await symlink(target, link)
    } else {
      if (!(await exists(link)) && !(await exists(unit))) return
      for (const file of [link, unit]) await rm(file, { force: true })
      await rmdir(dirname(link)).catch(ignoreFilled)
    }
    await syncDirectory(dirname(kept ? link : unit))
  }

  async remove(slot: SwapSlot): Promise<void> {
    const path = this.pathOf(slot)
    await rm(unfinished(path), { force: true })
    if (await isOwn(path)) await rm(path, { force: true })
  }
}

/** True if the agent created the file. Files of other programs must not be changed. */
async function isOwn(path: string): Promise<boolean> {
  if (!(await lstat(path).catch(absent))?.isFile()) return false
  return (await readSwapLabel(path).catch(absent)) === label
}

async function makeSwapFile(
  path: string,
  { bytes, isBtrfs, signal }: { bytes: number; isBtrfs: boolean; signal: AbortSignal },
): Promise<void> {
  await rm(path, { force: true })
  await (await open(path, 'wx', 0o600)).close()
  if (isBtrfs) await forbidCopyOnWrite(path)
  await allocate(path, bytes, signal)
  await formatSwap(path, label)
  const file = await open(path, 'r+')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

const unfinished = (path: string): string => `${path}.new`

/** Ignores the error of a removal if the directory is not empty, in use or missing. Throws all other errors. */
export function ignoreFilled(error: unknown): void {
  if (!['ENOTEMPTY', 'ENOENT', 'EEXIST', 'EBUSY'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
}

function absent(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  return undefined
}
