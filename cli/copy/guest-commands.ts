import { CliError, exitCodes, usageError } from '../errors.js'
import { splitRemote } from './plan-places.js'

/*
 * Commands that run in the guest. They need tar and sh, which every container has. Paths are arguments of the scripts,
 * so that the shell does not interpret them.
 */

const ends = { missing: 103, isDirectory: 104, isSpecial: 105, noParent: 106 } as const

/** Writes `d` if the target is a directory (files are copied into it), otherwise `n`. Then reads an archive. */
const uploadScript = `if [ -d "$1" ]; then cd -- "$1" && echo d
else case $1 in */) exit ${ends.noParent} ;; esac
  [ -d "$2" ] || exit ${ends.noParent}
  cd -- "$2" && echo n
fi && exec tar -x -o -f -`

/** Writes an archive. Follows the requested path if it is a link; with `-r`, only if it is a link to a directory. */
const downloadScript = `[ -e "$1" ] || [ -L "$1" ] || exit ${ends.missing}
cd -- "$2" || exit
if [ "$4" = r ]; then
  [ -d "./$3" ] && exec tar -c -f - "./$3/"
  exec tar -c -f - "./$3"
fi
[ -d "./$3" ] && exit ${ends.isDirectory}
[ -f "./$3" ] || exit ${ends.isSpecial}
exec tar -c -h -f - "./$3"`

export function uploadCommand(remote: string): string[] {
  const parent = remote.replace(/\/+$/, '') === '' ? '/' : splitRemote(remote).parent
  return ['sh', '-c', uploadScript, 'sh', remote, parent]
}

export function downloadCommand(remote: string, isRecursive: boolean): string[] {
  const { parent, name } = splitRemote(remote)
  return ['sh', '-c', downloadScript, 'sh', remote, parent, name, isRecursive ? 'r' : '']
}

/** Checks the exit code of a script. @throws {CliError} if the script failed */
export function checkEnd(code: number, remote: string): void {
  if (code === ends.missing) throw new CliError(exitCodes.notFound, `${remote}: no such file or directory in the guest`)
  if (code === ends.noParent) throw new CliError(exitCodes.notFound, `${remote}: no such directory in the guest`)
  if (code === ends.isDirectory) throw usageError(`${remote} is a directory`, 'copy directories with -r')
  if (code === ends.isSpecial) throw usageError(`${remote} is not a file`)
  if (code === 127) throw new CliError(exitCodes.failed, 'the guest has no tar or sh: install the package tar')
  if (code !== 0) throw new CliError(exitCodes.failed, `not everything was copied: tar in the guest ended with ${code}`)
}
