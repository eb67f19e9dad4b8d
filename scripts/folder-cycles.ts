import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/*
 * Rejects import cycles between the parts of a folder. A part is a file of the folder, or a subfolder with everything
 * below it. dependency-cruiser rejects cycles between single files.
 */

type Import = readonly [from: string, to: string]

const files = execFileSync('git', ['ls-files', 'agent', 'cli', 'client', 'gateway', 'panel', 'shared'], {
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => /\.(ts|svelte)$/.test(path) && !path.endsWith('.test.ts'))
const known = new Set(files)

function importsOf(file: string): Import[] {
  const specifiers = readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?\s*'(\.[^']*)'/g)
  return [...specifiers].flatMap(([, specifier = '']): Import[] => {
    const path = join(dirname(file), specifier)
    const to = [path, path.replace(/\.js$/, '.ts')].find((candidate) => known.has(candidate))
    return to === undefined ? [] : [[file, to]]
  })
}

function foldersOf(file: string): string[] {
  const folder = dirname(file)
  return folder === '.' ? ['.'] : [folder, ...foldersOf(folder)]
}

/** Returns the part of a folder that a file belongs to; undefined if the file is not in the folder. */
function partOf(folder: string, file: string): string | undefined {
  if (folder === '.') return file.split('/')[0]
  return file.startsWith(`${folder}/`) ? file.slice(folder.length + 1).split('/')[0] : undefined
}

function graphOf(folder: string, imports: readonly Import[]): Map<string, Set<string>> {
  const graph = new Map<string, Set<string>>()
  for (const [file, imported] of imports) {
    const [from, to] = [partOf(folder, file), partOf(folder, imported)]
    if (from && to && from !== to) graph.set(from, (graph.get(from) ?? new Set()).add(to))
  }
  return graph
}

/** Repeatedly removes parts that import no remaining part. The cycles, and all parts that lead to a cycle, remain. */
function cyclesOf(graph: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const left = new Set(graph.keys())
  const isFree = (part: string): boolean => ![...(graph.get(part) ?? [])].some((imported) => left.has(imported))
  for (let free = [...left].filter(isFree); free.length > 0; free = [...left].filter(isFree))
    for (const part of free) left.delete(part)
  return [...left]
}

const imports = files.flatMap(importsOf)
for (const folder of new Set(files.flatMap(foldersOf))) {
  const parts = cyclesOf(graphOf(folder, imports))
  if (parts.length === 0) continue
  console.log(`${folder}: the imports of these parts contain a cycle: ${parts.join(', ')}`)
  process.exitCode = 1
}
