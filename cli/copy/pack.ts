import { basename, dirname, resolve } from 'node:path'
import { create } from 'tar'

export interface PackOptions {
  /** File or directory on this machine. */
  readonly source: string
  /** Name of the copy in the guest. */
  readonly name: string
  /** Called for each file that is not copied. */
  readonly onSkip: (message: string) => void
}

/** Returns an archive of a file or directory. In the guest, the files belong to root, without setuid and setgid. */
export function packFiles({ source, name, onSkip }: PackOptions): AsyncIterable<Buffer> {
  const path = resolve(source)
  const top = basename(path)
  const rename = (text: string): string => name + text.replace(/^\.\//, '').slice(top.length)
  return create(
    {
      cwd: dirname(path),
      // Leaves out the owners of files, and fields that other tar programs report as unknown.
      portable: true,
      onWriteEntry: (entry) => {
        entry.path = rename(entry.path)
        if (entry.type === 'Link') entry.linkpath = rename(entry.linkpath ?? '')
        entry.stat!.mode &= ~0o6000
      },
      onwarn: (_code, message) => onSkip(String(message)),
    },
    [`./${top}`],
  )
}
