import { runPerl, type RunOptions, type RunResult } from '../process/process.js'

/** By which a program that `runBesideTree` starts finds the tree, from its working directory. */
export const treeName = 'volume'

/**
 * Runs a program whose working directory has a tree at `treeName`, which it has there for the program alone.
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
