export interface IsoEntry {
  readonly name: string
  readonly kind: 'directory' | 'file'
  /** Index of a directory in the list of all directories, or of a file in the list that the caller passed. */
  readonly index: number
}

export interface IsoDirectory {
  readonly name: string
  /** Index of the parent in the list of all directories. The root is its own parent. */
  readonly parent: number
  /** Entries of the directory, sorted by name. */
  readonly entries: readonly IsoEntry[]
}

/** Pattern of the names that every reader of CDs accepts. */
const names = /^(?!\.+$)[A-Za-z0-9._-]{1,64}$/

/**
 * Plans the directories that the files need, level by level, the root first.
 * @param files paths of the files, with `/` between names
 * @throws {Error} for an invalid name
 */
export function planTree(files: readonly string[]): IsoDirectory[] {
  const above = files.flatMap((path) => ancestorsOf(path))
  const directories = [...new Set(['', ...above])].sort(byLevel)
  const all = [
    ...directories.map((path, index) => ({ path, kind: 'directory' as const, index })).slice(1),
    ...files.map((path, index) => ({ path, kind: 'file' as const, index })),
  ]
  return directories.map((path) => ({
    name: nameOf(path),
    parent: directories.indexOf(parentOf(path)),
    entries: all
      .filter((one) => parentOf(one.path) === path)
      .map((one) => ({ name: check(nameOf(one.path)), kind: one.kind, index: one.index }))
      .sort((a, b) => compare(a.name, b.name)),
  }))
}

function ancestorsOf(path: string): string[] {
  const parent = parentOf(path)
  return parent === '' ? [] : [...ancestorsOf(parent), parent]
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** Compares directories by level, then by the order of their parents, then by name. */
function byLevel(a: string, b: string): number {
  const [first, second] = [a.split('/'), b.split('/')]
  const level = Number(a !== '') * first.length - Number(b !== '') * second.length
  return level === 0 ? compare(first.join('\0'), second.join('\0')) : level
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

function check(name: string): string {
  if (names.test(name)) return name
  throw new Error(`the name is not allowed on a CD: ${JSON.stringify(name)}`)
}
