import { CliError, exitCodes } from '../errors.js'

/** The fields of an entry in an archive that decide what is written. The guest controls all these fields. */
export interface ArchiveEntry {
  readonly path: string
  readonly type: string
  readonly mode?: number | undefined
  readonly linkpath?: string | undefined
}

/** The file or directory that was requested from the guest. */
export interface CopySource {
  /** Name of the file or directory. */
  readonly name: string
  readonly isRecursive: boolean
}

/** The treatment of an entry. `path` is relative to the requested file or directory; empty: that file or directory. */
export type EntryStep =
  | { readonly do: 'file'; readonly path: readonly string[]; readonly mode: number }
  | { readonly do: 'directory'; readonly path: readonly string[]; readonly mode: number }
  | { readonly do: 'link'; readonly path: readonly string[]; readonly to: string }
  /** A hard link becomes a copy of a file that was already written. */
  | { readonly do: 'copy'; readonly path: readonly string[]; readonly from: readonly string[] }
  | { readonly do: 'skip'; readonly reason: string }

/**
 * Decides which file or directory an entry of a guest's archive is allowed to write.
 * @throws {CliError} `failed` if the guest sent something that was not requested
 */
export function planEntry(entry: ArchiveEntry, requested: CopySource): EntryStep {
  const path = namesBelow(entry.path, requested)
  if (path === undefined) throw unrequested(entry.path)
  if (entry.path.includes('\ufffd')) return { do: 'skip', reason: 'its name is not valid UTF-8' }
  const isFile = /^(File|OldFile|ContiguousFile)$/.test(entry.type)
  if (!requested.isRecursive && !isFile) throw unrequested(entry.path)
  if (isFile) return { do: 'file', path, mode: permissionsOf(entry, 0o644) }
  if (entry.type === 'Directory') return { do: 'directory', path, mode: permissionsOf(entry, 0o755) | 0o700 }
  if (entry.type === 'SymbolicLink') return planLink(path, entry.linkpath ?? '')
  if (entry.type === 'Link') return planHardLink(path, entry.linkpath ?? '', requested)
  return { do: 'skip', reason: 'it is neither a file nor a directory nor a link' }
}

/** Returns the permissions of an entry without setuid, setgid and the sticky bit. */
function permissionsOf({ mode }: ArchiveEntry, usual: number): number {
  return (mode ?? usual) & 0o777
}

/** Returns the names below the requested file or directory. `undefined`: the path is outside. */
function namesBelow(path: string, { name, isRecursive }: CopySource): string[] | undefined {
  const [top, ...names] = path.replace(/^\.\//, '').replace(/\/$/, '').split('/')
  if (top !== name || (names.length > 0 && !isRecursive)) return undefined
  return names.every((one) => one !== '' && one !== '.' && one !== '..' && !one.includes('\0')) ? names : undefined
}

/**
 * A link must lead to a place in the copied directory. The target of a link may contain `..` only at its beginning. A
 * later `..` could lead anywhere, because the name before it could be another link.
 */
function planLink(path: readonly string[], to: string): EntryStep {
  const names = to.split('/')
  const isName = (name: string): boolean => name !== '..'
  const first = names.findIndex(isName)
  const ups = first < 0 ? names.length : first
  const isInside = ups < path.length && names.slice(ups).every(isName)
  if (to === '' || to.startsWith('/') || to.includes('\0') || !isInside)
    return { do: 'skip', reason: 'it is a link that leads out of the copied directory' }
  return { do: 'link', path, to }
}

function planHardLink(path: readonly string[], to: string, requested: CopySource): EntryStep {
  const from = namesBelow(to, requested)
  return from ? { do: 'copy', path, from } : { do: 'skip', reason: 'it is a link to a file that was not copied' }
}

function unrequested(path: string): CliError {
  return new CliError(exitCodes.failed, `the guest sent ${path}, which was not requested`)
}
