import { runPerl } from '../process/process.js'

/** A change in a guest's root. Paths are relative to it and contain no links. */
export type RootChange =
  | { readonly kind: 'directory'; readonly path: string; readonly mode: number }
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly content: string }
  /** Replaces a file if it exists. */
  | { readonly kind: 'existing'; readonly path: string; readonly mode: number; readonly content: string }
  | { readonly kind: 'remove'; readonly path: string }
  /** Replaces a file only if it has the old content, or adds it. */
  | { readonly kind: 'unchanged'; readonly path: string; readonly old: string; readonly content: string }
  /** Replaces the lines that begin with a word by one line. `content` is used if the file does not exist. */
  | {
      readonly kind: 'line'
      readonly path: string
      readonly first: string
      readonly line: string
      readonly content: string
    }
  /** Root's password as a crypt(5) hash; `*`: no password works. */
  | { readonly kind: 'password'; readonly hash: string }
  /** The only key in root's authorized_keys, in root's home as /etc/passwd of the guest names it; empty: no key. */
  | { readonly kind: 'key'; readonly content: string }

/**
 * Applies the changes in order; they are on the disk when this returns. It ignores mounts, so it must not be used in a
 * guest's mount namespace.
 * @param root the directory of a guest's root filesystem
 * @throws {CommandError} at the first change that the guest's files prevent
 */
export async function changeRoot(root: string, changes: readonly RootChange[]): Promise<void> {
  await runPerl('change-root', [root, ...changes.flatMap(argumentsOf)])
}

/** The password field of root and the text of its `authorized_keys`; empty if they are missing or not plain files. */
export async function readRootLogin(root: string): Promise<{ shadowField: string; authorizedKeys: string }> {
  const { stdout } = await runPerl('read-login', [root])
  const end = stdout.indexOf('\n')
  return { shadowField: stdout.slice(0, end), authorizedKeys: stdout.slice(end + 1) }
}

/** @returns the paths that are regular files of the root itself, reached without links */
export async function listExisting(root: string, paths: readonly string[]): Promise<string[]> {
  const { stdout } = await runPerl('list-existing', [root, ...paths])
  return stdout.split('\n').filter((path) => path !== '')
}

function argumentsOf(change: RootChange): string[] {
  switch (change.kind) {
    case 'password':
      return [change.kind, change.hash]
    case 'key':
      return [change.kind, change.content]
    case 'unchanged':
      return [change.kind, change.path, change.old, change.content]
    case 'remove':
      return [change.kind, change.path]
    case 'line':
      return [change.kind, change.path, change.first, change.line, change.content]
    case 'directory':
      return [change.kind, change.path, String(change.mode)]
    case 'file':
    case 'existing':
      return [change.kind, change.path, String(change.mode), change.content]
  }
}
