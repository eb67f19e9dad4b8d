import { readPerlProgram } from './perl-program.js'
import { runPerl } from './process.js'

/** What to make in a guest's root; paths are relative to it, without links. */
export type RootChange =
  | { readonly kind: 'directory'; readonly path: string; readonly mode: number }
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly content: string }
  /** Root's, as a crypt(5) hash. */
  | { readonly kind: 'password'; readonly hash: string }

const changeRootProgram = readPerlProgram('change-root')

/**
 * Makes the changes in order; their contents are on the disk when this returns. Not for a guest's mount namespace:
 * what is mounted there is not seen.
 * @param root the directory of a guest's root filesystem
 * @throws {CommandError} at the first that its files do not allow
 */
export async function changeRoot(root: string, changes: readonly RootChange[]): Promise<void> {
  await runPerl(changeRootProgram, [root, ...changes.flatMap(argumentsOf)])
}

function argumentsOf(change: RootChange): string[] {
  switch (change.kind) {
    case 'password':
      return [change.kind, change.hash]
    case 'directory':
      return [change.kind, change.path, String(change.mode)]
    case 'file':
      return [change.kind, change.path, String(change.mode), change.content]
  }
}
