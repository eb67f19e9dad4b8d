/** A file that takes far less space than its length. restic would write its whole length. */
export interface LargeFile {
  /** Its index among the files of the layout. */
  readonly index: number
  readonly path: string
  readonly sizeBytes: number
}

/** Maximum number of files that are fetched one by one: each needs a run of restic. */
const most = 500

/** @param layout as agent/host/perl/read-layout.pl writes it, a character for each byte */
export function listLargeFiles(layout: string): LargeFile[] {
  const fields = layout.split('\0')
  const files: LargeFile[] = []
  let index = -1
  for (let at = 0; at < fields.length - 1;) {
    const kind = fields[at]!
    if (kind === 'F') index++
    if (kind === 'M') {
      const [path, sizeBytes] = [decodeName(fields[at - 2]!), Number(fields[at - 1])]
      if (path !== undefined && files.length < most) files.push({ index, path, sizeBytes })
      at += 7 + 2 * (Number(fields[at + 6]) || 0)
    } else at += lengths[kind] ?? fields.length
  }
  return files
}

/** Number of fields of each kind, including its name. */
const lengths: Readonly<Record<string, number>> = { F: 3, H: 3, C: 3, S: 5 }

/** A name that is not valid UTF-8 cannot be passed as an argument. */
function decodeName(bytes: string): string | undefined {
  const text = Buffer.from(bytes, 'latin1').toString()
  return Buffer.from(text).toString('latin1') === bytes ? text : undefined
}

/**
 * Arguments of `restic restore` that exclude everything outside the tree, and these files of the tree. restic takes
 * either `--include` or `--exclude`.
 * @param tree its name in the snapshot
 */
export function planExcludes(tree: string, files: readonly Pick<LargeFile, 'path'>[]): string[] {
  const patterns = [...besideTree(tree), ...files.map(({ path }) => `/${tree}/${escapePattern(path)}`)]
  return patterns.flatMap((pattern) => ['--exclude', pattern])
}

/** Patterns that match every name except the tree's: shorter, longer, or with a different letter in one position. */
function besideTree(tree: string): string[] {
  const letters = [...tree]
  const shorter = letters.slice(1).map((_letter, index) => `/${'?'.repeat(index + 1)}`)
  const other = letters.map(
    (letter, index) => `/${tree.slice(0, index)}[^${letter}]${'?'.repeat(letters.length - index - 1)}`,
  )
  return [...shorter, `/${'?'.repeat(letters.length + 1)}*`, ...other]
}

/** Escapes the special characters of Go's filepath.Match. */
function escapePattern(path: string): string {
  return path.replaceAll(/[\\*?[\]]/g, (letter) => `\\${letter}`)
}
