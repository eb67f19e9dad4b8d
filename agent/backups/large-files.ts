import { setImmediate } from 'node:timers/promises'
import { mostLargeFiles, mostLargePathBytes } from '../host/disk/file-layout.js'

/** A file that takes far less space than its length. restic would restore it at its full length. */
export interface LargeFile {
  /** Index of the file among all files that read-layout.pl lists. */
  readonly index: number
  /** Offset in bytes at which the file's description begins in the output of read-layout.pl. */
  readonly offset: number
  readonly path: string
  readonly sizeBytes: number
}

/** Bytes of read-layout.pl's output that are parsed before the parser yields to the event loop. */
const bytesAtOnce = 256 * 1024

/** Maximum number of attributes of a file. Must equal the one in agent/host/perl/apply-layout.pl. */
const mostAttributes = 65_536

/**
 * Lists the large files of a layout.
 * @param layout output of agent/host/perl/read-layout.pl, one character per byte
 * @returns undefined if the layout is damaged
 */
export async function listLargeFiles(layout: string): Promise<LargeFile[] | undefined> {
  const found = new FoundFiles()
  const fields = new Fields(layout)
  let [index, offset, path, size] = [-1, 0, '', '']
  for (let [start, kind] = [0, fields.next()]; kind !== undefined; [start, kind] = [fields.at, fields.next()]) {
    if (kind === 'F') {
      ;[path, size] = [fields.next() ?? '', fields.next() ?? '']
      offset = start
      index++
    } else if (kind === 'M' && index >= 0) {
      found.add(path, { index, offset, sizeBytes: Number(size) })
      skipDescription(fields)
    } else if (index >= 0 && kind in rangeLengths) fields.skip(rangeLengths[kind]!)
    else return undefined
    if (crosses(start, fields.at)) await setImmediate()
  }
  return fields.isWhole ? found.files : undefined
}

/** True if a multiple of `bytesAtOnce` is between the two offsets. The parser then yields to the event loop. */
function crosses(start: number, end: number): boolean {
  return Math.floor(start / bytesAtOnce) < Math.floor(end / bytesAtOnce)
}

class FoundFiles {
  readonly files: LargeFile[] = []
  #pathBytes = 0

  /** Adds a file. Skips it if there are too many files, or if its name cannot be passed to a program. */
  add(bytes: string, file: Omit<LargeFile, 'path'>): void {
    const path = decodeName(bytes)
    const pathBytes = this.#pathBytes + escapePattern(bytes).length
    if (path === undefined || this.files.length >= mostLargeFiles || pathBytes > mostLargePathBytes) return
    this.files.push({ ...file, path })
    this.#pathBytes = pathBytes
  }
}

/** Reads NUL-terminated fields one by one, because a layout can have millions of fields. */
class Fields {
  /** Offset of the next field in the text. */
  at = 0
  /** False if the text ended in the middle of a field, or before all fields to skip. */
  isWhole = true

  constructor(private readonly text: string) {}

  next(): string | undefined {
    const [start, end] = [this.at, this.text.indexOf('\0', this.at)]
    if (end >= 0) this.at = end + 1
    else if (start < this.text.length) this.isWhole = false
    return end >= 0 ? this.text.slice(start, end) : undefined
  }

  skip(count: number): void {
    for (let left = count; left > 0 && this.isWhole; left--) this.isWhole = this.next() !== undefined
  }
}

/** Skips a file's mode, user, group, time in seconds and nanoseconds, number of attributes, and attributes. */
function skipDescription(fields: Fields): void {
  fields.skip(5)
  const count = Number(fields.next())
  if (Number.isSafeInteger(count) && count >= 0 && count <= mostAttributes) fields.skip(2 * count)
  else fields.isWhole = false
}

/** Number of fields of a range in a layout, by the range's letter: hole (H), compressed (C) or shared data (S). */
const rangeLengths: Readonly<Record<string, number>> = { H: 2, C: 2, S: 4 }

/** Decodes a name. Returns undefined for invalid UTF-8, because such a name cannot be passed to a program. */
function decodeName(bytes: string): string | undefined {
  const text = Buffer.from(bytes, 'latin1').toString()
  return Buffer.from(text).toString('latin1') === bytes ? text : undefined
}

/**
 * Plans arguments of `restic restore` that exclude everything outside the tree, and the given files in the tree. restic
 * does not accept `--include` together with `--exclude`. In Debian 12, restic cannot read excludes from a file.
 * @param tree name of the tree in the snapshot
 */
export function planExcludes(tree: string, files: readonly Pick<LargeFile, 'path'>[]): string[] {
  const patterns = [...besideTree(tree), ...files.map(({ path }) => `/${tree}/${escapePattern(path)}`)]
  return patterns.flatMap((pattern) => ['--exclude', pattern])
}

/** Returns patterns that match every name except `tree`: shorter, longer, or different in one character. */
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
