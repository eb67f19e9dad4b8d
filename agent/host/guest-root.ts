import { readPerlProgram } from './perl-program.js'
import { runPerl } from './process.js'

/** A change in a guest's root; paths are relative to it, without links. */
export type RootChange =
  | { readonly kind: 'directory'; readonly path: string; readonly mode: number }
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly content: string }
  /** Root's password as a crypt(5) hash. */
  | { readonly kind: 'password'; readonly hash: string }

const changeRootProgram = readPerlProgram('change-root')

/**
 * Makes the changes in order; they are on the disk when this returns. It cannot be used in a guest's mount namespace,
 * as it ignores what is mounted there.
 * @param root the directory of a guest's root filesystem
 * @throws {CommandError} at the first change that the guest's files prevent
 */
export async function changeRoot(root: string, changes: readonly RootChange[]): Promise<void> {
  await runPerl(changeRootProgram, [root, ...changes.flatMap(argumentsOf)])
}

const readLoginProgram = readPerlProgram('read-login')

/** The password field of root and the text of its `authorized_keys`, empty where they are missing or not plain files. */
export async function readRootLogin(root: string): Promise<{ shadowField: string; authorizedKeys: string }> {
  const { stdout } = await runPerl(readLoginProgram, [root])
  const end = stdout.indexOf('\n')
  return { shadowField: stdout.slice(0, end), authorizedKeys: stdout.slice(end + 1) }
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
