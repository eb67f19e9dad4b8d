import { posix } from 'node:path'
import { usageError } from '../errors.js'

/** A copy between this machine and a guest. */
export interface CopyPlan {
  readonly direction: 'upload' | 'download'
  readonly guest: string
  /** Absolute path in the guest. A `/` at its end is kept. */
  readonly remote: string
  /** Path on this machine. */
  readonly local: string
}

/** Directory in the guest from which relative paths begin. */
const home = '/root'

/** Plans `berth cp SOURCE TARGET`. Either SOURCE or TARGET is `GUEST:PATH`. @throws {CliError} `usage` */
export function planCopy(source: string, target: string): CopyPlan {
  const [from, to] = [parsePlace(source), parsePlace(target)]
  if ((from === undefined) === (to === undefined))
    throw usageError(
      from ? 'files cannot be copied between two guests' : 'neither of the paths is in a guest',
      'write for example: berth cp file web1:/root/; a local name with a colon needs a slash before it: ./a:b',
    )
  return from ? { direction: 'download', ...from, local: target } : { direction: 'upload', ...to!, local: source }
}

/** @returns undefined for a path on this machine */
function parsePlace(text: string): { guest: string; remote: string } | undefined {
  const [, guest, path = ''] = /^([^/:]+):(.*)$/s.exec(text) ?? []
  if (guest === undefined) return undefined
  const remote = posix.join(posix.isAbsolute(path) ? '/' : home, path || '/')
  return { guest, remote }
}

/** Returns the name of a file or directory, and the directory that contains it. @throws {CliError} `usage` for `/` */
export function splitRemote(path: string): { readonly parent: string; readonly name: string } {
  const name = posix.basename(path)
  if (name === '') throw usageError('the root directory cannot be copied: name a directory in it')
  return { parent: posix.dirname(path), name }
}
