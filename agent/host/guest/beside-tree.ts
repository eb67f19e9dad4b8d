import { runPerl, type RunOptions, type RunResult } from '../process/process.js'

/** Name of the tree in the working directory of a program that `runBesideTree` starts. */
export const treeName = 'volume'

/**
 * Runs a program in the directory `place`. Only this program sees `tree` in the directory, under the name `treeName`.
 * @throws {CommandError} like `run`
 */
export function runBesideTree(
  { place, tree }: { readonly place: string; readonly tree: string },
  command: readonly string[],
  options: RunOptions,
): Promise<RunResult> {
  return runPerl('beside-tree', [place, tree, ...command], options)
}
