import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'

/**
 * Returns a digest of everything in a tree: names, contents, kinds, owners, modes, times, links, devices, attributes
 * and ACLs. Sockets are omitted, as they are useless without the process that created them.
 * @param without paths to omit, such as `./etc/hostname`
 */
export function digestTree(root: string, without: readonly string[] = []): string {
  const excluded = without.map((path) => `--exclude=${path}`)
  const output = execFileSync(
    'tar',
    [
      '--create',
      '--file=-',
      `--directory=${root}`,
      '--format=pax',
      '--sort=name',
      '--numeric-owner',
      '--pax-option=exthdr.name=x,delete=atime,delete=ctime',
      '--warning=no-file-ignored',
      '--xattrs',
      '--xattrs-include=*',
      '--acls',
      '--anchored',
      ...excluded,
      '.',
    ],
    { maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  return createHash('sha256').update(output).digest('hex')
}
