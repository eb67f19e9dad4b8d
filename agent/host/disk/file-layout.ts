import { runPerl, type RunOptions, type RunResult } from '../process/process.js'

/** Timeout in ms of programs that read or write a whole tree. */
const longestMs = 24 * 3_600_000

/** Maximum length in bytes of a layout that is read. Layouts that the agent writes are much shorter. */
export const mostLayoutBytes = 64 * 1024 ** 2

/** Maximum number of large files, because each of them needs its own run of restic. */
export const mostLargeFiles = 500

/** Maximum total bytes of all large files' paths. The paths become arguments, limited to about 2 MiB (execve(2)). */
export const mostLargePathBytes = 512 * 1024

export interface LayoutBounds {
  /** Maximum memory in bytes for the description of the tree. It is sufficient for about 2 million extents. */
  readonly memoryBytes: number
  /** Maximum length in bytes of the layout that `readLayout` writes. */
  readonly writtenBytes: number
}

const usualBounds: LayoutBounds = { memoryBytes: 256 * 1024 ** 2, writtenBytes: 48 * 1024 ** 2 }

/** Facts from which the space for a restore is computed. */
export interface LayoutSpace {
  /** Total length of the large files, minus the bytes that they occupy on the disk. */
  readonly savedBytes: number
  /** Additional bytes that a restore needs temporarily, because it moves data that several files share. */
  readonly movedBytes: number
}

/**
 * Records which data the files of a tree share, where they have holes, and which data is compressed. Omits a file if
 * the memory or the length of the layout (`LayoutBounds`) is too small for it. If such a file has large holes, the
 * layout records only this fact, and a restore makes holes from its zeros.
 * @param tree tree on btrfs, which must not change at this time
 * @param file path of the new layout, whose format perl/read-layout.pl describes
 * @throws {CommandError}
 */
export async function readLayout(
  tree: string,
  file: string,
  signal: AbortSignal,
  { memoryBytes, writtenBytes } = usualBounds,
): Promise<LayoutSpace> {
  const bounds = [memoryBytes, writtenBytes, mostLargeFiles, mostLargePathBytes].map(String)
  const { stdout } = await runPerl('read-layout', [tree, file, ...bounds], { timeoutMs: longestMs, signal })
  const [savedBytes = 0, movedBytes = 0] = stdout.split(' ').map(Number)
  return { savedBytes, movedBytes }
}

export interface LayoutSource {
  /** Path of the layout that `readLayout` wrote. Undefined: zeros become holes, and only equal files share data. */
  readonly layout: string | undefined
  /** Directory of an unpacked image on the same file system. Equal files of the tree and the image share their data. */
  readonly image: string | undefined
  /** Large files that `applyToFetched` has already handled, by their indexes in the layout. */
  readonly apart: readonly number[]
}

/**
 * Makes the files of a tree as small on the disk as the layout describes. The kernel compares data before files share
 * it, so that the content of files never changes. The times of files do not change either.
 * @param tree tree that no program uses
 * @throws {CommandError}
 */
export async function applyLayout(tree: string, source: LayoutSource, signal: AbortSignal): Promise<void> {
  const { layout = '', image = '', apart } = source
  const args = [tree, layout, image, ...apart.map(String)]
  await runPerl('apply-layout', args, { timeoutMs: longestMs, signal })
}

/**
 * Like `applyLayout`, but for one large file that was fetched separately. Also sets owner, mode, attributes and times.
 * @param offset offset in bytes at which the file's description begins in the layout
 */
export async function applyToFetched(
  tree: string,
  { layout, offset }: { readonly layout: string; readonly offset: number },
  signal: AbortSignal,
): Promise<void> {
  await runPerl('apply-layout', [tree, layout, '', 'only', String(offset)], { timeoutMs: longestMs, signal })
}

/**
 * Runs a program and writes its output to a new file of a tree, with holes instead of zeros.
 * @throws {CommandError} also if the output has the wrong length
 */
export function runIntoFile(
  { tree, path, sizeBytes }: { readonly tree: string; readonly path: string; readonly sizeBytes: number },
  command: readonly string[],
  options: RunOptions,
): Promise<RunResult> {
  return runPerl('fetch-file', [tree, path, String(sizeBytes), ...command], options)
}
