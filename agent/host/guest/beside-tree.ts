import { runPerl, type RunOptions, type RunResult } from '../process/process.js'

/** Name of the tree in the working directory of a program that `runBesideTree` starts. */
export const treeName = 'volume'

/**
 * Runs a program that sees a tree at `treeName` in its working directory. No other process sees it there.
 * @param place the working directory
 * @throws {CommandError} as `run`
 */
export function runBesideTree(
  { place, tree }: { readonly place: string; readonly tree: string },
  command: readonly string[],
  options: RunOptions,
): Promise<RunResult> {
  return runPerl('beside-tree', [place, tree, ...command], options)
}
