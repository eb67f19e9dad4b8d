import { runPerl, type RunOptions, type RunResult } from '../process/process.js'

/** Timeout; moving data takes as long as reading and writing it. */
const longestMs = 24 * 3_600_000

/** The largest layout that is read. Written layouts stay well below it. */
export const mostLayoutBytes = 64 * 1024 ** 2

/** Maximum number of large files, which are fetched one by one: each needs a run of restic. */
export const mostLargeFiles = 500

/** Maximum length of their escaped paths: they are arguments, which the kernel limits to about 2 MiB (execve(2)). */
export const mostLargePathBytes = 512 * 1024

export interface LayoutBounds {
  /** Memory for the description of the tree: some 2 million extents. */
  readonly memoryBytes: number
  /** The longest layout that is written. */
  readonly writtenBytes: number
}

const usualBounds: LayoutBounds = { memoryBytes: 256 * 1024 ** 2, writtenBytes: 48 * 1024 ** 2 }

/** Space that a restore needs, compared with the length of the files. */
export interface LayoutSpace {
  /** Bytes that large files, which are restored one by one, save together. */
  readonly savedBytes: number
  /** Bytes needed in addition while data is moved and shared. */
  readonly movedBytes: number
}

/**
 * Records which data the files of a tree share, where they have holes, and which data is compressed. Files beyond the
 * bounds are left out. A file with large holes is then recorded without its ranges.
 * @param tree on btrfs; nothing may write to it
 * @param file path of the new layout; its format is described in perl/read-layout.pl
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
  /** Path of a file that `readLayout` wrote; undefined: zeros become holes, and equal files share their data. */
  readonly layout: string | undefined
  /** Root of a tree on the same file system. Files that are equal in both share its data. */
  readonly image: string | undefined
  /** Indexes of files in the layout that `applyToFetched` has already handled. */
  readonly apart: readonly number[]
}

/**
 * Reduces the files of a tree to the space that they take in the layout. The kernel compares data before it shares it,
 * so the content of the files never changes. Their times stay as well.
 * @param tree no program may run in it
 * @throws {CommandError}
 */
export async function applyLayout(tree: string, source: LayoutSource, signal: AbortSignal): Promise<void> {
  const { layout = '', image = '', apart } = source
  const args = [tree, layout, image, ...apart.map(String)]
  await runPerl('apply-layout', args, { timeoutMs: longestMs, signal })
}

/**
 * Does the same for one large file that was fetched separately. Also sets owner, mode, attributes and times.
 * @param offset byte of the layout where the file begins
 */
export async function applyToFetched(
  tree: string,
  { layout, offset }: { readonly layout: string; readonly offset: number },
  signal: AbortSignal,
): Promise<void> {
  await runPerl('apply-layout', [tree, layout, '', 'only', String(offset)], { timeoutMs: longestMs, signal })
}

/**
 * Runs a program and writes its output to a new file of a tree, with holes in place of zeros.
 * @throws {CommandError} also if the output has the wrong length
 */
export function runIntoFile(
  { tree, path, sizeBytes }: { readonly tree: string; readonly path: string; readonly sizeBytes: number },
  command: readonly string[],
  options: RunOptions,
): Promise<RunResult> {
  return runPerl('fetch-file', [tree, path, String(sizeBytes), ...command], options)
}
