import { runPerl } from '../process/process.js'

/** A change of a file in a guest's root directory. Paths are relative to the directory and must not contain links. */
export type RootChange =
  | { readonly kind: 'directory'; readonly path: string; readonly mode: number }
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly content: string }
  /** Replaces a file, but only if it exists. */
  | { readonly kind: 'existing'; readonly path: string; readonly mode: number; readonly content: string }
  | { readonly kind: 'remove'; readonly path: string }
  /** Replaces a file if its content is `old`, and adds the file if it is missing. */
  | { readonly kind: 'unchanged'; readonly path: string; readonly old: string; readonly content: string }
  /**
   * Replaces all lines whose first word is `first` by `line`. If the file is missing, adds it with `content`. Does not
   * change links and files of 1 MiB or more.
   */
  | {
      readonly kind: 'line'
      readonly path: string
      readonly first: string
      readonly line: string
      readonly content: string
    }
  /** Sets root's password to a crypt(5) hash. `*`: no password works. */
  | { readonly kind: 'password'; readonly hash: string }
  /** Replaces root's authorized_keys, in the home directory that the guest's /etc/passwd names. Empty: no key. */
  | { readonly kind: 'key'; readonly content: string }

/**
 * Applies the changes in order, and returns when they are on the disk. Ignores mounts, so it must not be used in a
 * guest's mount namespace.
 * @param root directory of a guest's root filesystem
 * @throws {CommandError} at the first change that the guest's files prevent
 */
export async function changeRoot(root: string, changes: readonly RootChange[]): Promise<void> {
  await runPerl('change-root', [root, ...changes.flatMap(argumentsOf)])
}

/** Reads root's password field and `authorized_keys`. Either is empty if the file is missing or not a regular file. */
export async function readRootLogin(root: string): Promise<{ shadowField: string; authorizedKeys: string }> {
  const { stdout } = await runPerl('read-login', [root])
  const end = stdout.indexOf('\n')
  return { shadowField: stdout.slice(0, end), authorizedKeys: stdout.slice(end + 1) }
}

/** @returns those of `paths` that are regular files of the root filesystem and are reached without links */
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
