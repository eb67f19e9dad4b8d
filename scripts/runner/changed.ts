import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { build } from 'esbuild'
import { allEntryPoints, allFiles } from './compile.js'

/* Finds the tests that a change can affect, by the rules in docs/development.md. */

/** Maps each file to the files that it needs. */
export type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** Files whose change can affect every test. */
const affectAll =
  /^(package(-lock)?\.json|tsconfig\.json|\.mocharc\.json|buf[.\w]*\.yaml|scripts\/(test|runner\/|lib\/(bundle|build|common)\.)[\w./-]*)$/

/** Files that can start or read other files. Their text is searched for the names of other files. */
const namesFiles = /\.(ts|mjs|js|sh|py)$|^scripts\/\w+$/

/** Files whose paths the source `user` computes. The text of `user` does not contain these paths. */
const computedNames: readonly (readonly [files: RegExp, user: string])[] = [
  [/^agent\/host\/perl\//, 'agent/host/process/perl-program.ts'],
  [/^agent\/config-worker\.ts$/, 'agent/read-config.ts'],
  [/^agent\/console\/main\.ts$/, 'agent/console/console-process.ts'],
]

/** True for files of the product. They do not depend on the scripts and documentation pages that their text names. */
const isProduct = (file: string): boolean => /^(agent|client|gateway|panel|shared|proto)\/(?!.*\.test\.ts$)/.test(file)

/** Returns the files that differ from the commit `base`, including untracked files. */
export function changedFiles(base: string): string[] {
  const changed = git('diff', '--name-only', '--no-renames', base)
  return [...new Set([...changed, ...git('ls-files', '--others', '--exclude-standard')])]
}

/** Returns the newest commit that this branch shares with origin/main, or HEAD if they share no commit. */
export function defaultBase(): string {
  try {
    return git('merge-base', 'HEAD', 'origin/main')[0] ?? 'HEAD'
  } catch {
    return 'HEAD'
  }
}

export function affectedTests(changed: readonly string[], tests: readonly string[], graph: Graph): string[] {
  if (changed.some((file) => affectAll.test(file))) return [...tests]
  const users = invert(graph)
  const affected = new Set<string>()
  const add = (file: string): void => {
    if (affected.has(file)) return
    affected.add(file)
    for (const user of users.get(file) ?? []) add(user)
  }
  for (const file of changed) add(generatedFrom(file))
  return tests.filter((test) => affected.has(test))
}

/** Returns the path of the code that is generated from a protocol file. Returns any other path unchanged. */
const generatedFrom = (file: string): string =>
  file.startsWith('proto/') ? file.replace(/^proto\/(?!gen\/)(.*)\.proto$/, 'proto/gen/$1.ts') : file

function invert(graph: Graph): Map<string, string[]> {
  const users = new Map<string, string[]>()
  for (const [file, needed] of graph) for (const other of needed) users.set(other, [...(users.get(other) ?? []), file])
  return users
}

/** Reads the graph. A file needs the files that it imports, except imports of types, and files that its text names. */
export async function readGraph(): Promise<Graph> {
  const graph = new Map<string, Set<string>>()
  const edge = (from: string, to: string): unknown => graph.set(from, (graph.get(from) ?? new Set<string>()).add(to))
  for (const [from, { imports }] of Object.entries(await readImports()))
    for (const { path, external } of imports) if (!external) edge(from, path)
  const files = allFiles()
  const find = fileFinder(files)
  for (const file of files.filter((path) => namesFiles.test(path)))
    for (const named of namedFiles(readFileSync(file, 'utf8'), find))
      if (!isProduct(file) || isProduct(named)) edge(file, named)
  for (const [pattern, user] of computedNames)
    for (const file of files.filter((path) => pattern.test(path))) edge(user, file)
  return graph
}

async function readImports(): Promise<Record<string, { imports: { path: string; external?: boolean }[] }>> {
  const { metafile } = await build({
    entryPoints: allEntryPoints(),
    outdir: 'dist',
    write: false,
    metafile: true,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    packages: 'external',
    external: ['*.svelte'],
    logLevel: 'error',
  })
  return metafile.inputs
}

type FileFinder = (name: string) => readonly string[]

/**
 * Makes a function that returns the files to which a name in a text can refer. The name can be a path from the root of
 * the repository, or a program or folder in dist. It can also be the base name of a file that is not TypeScript.
 */
export function fileFinder(all: readonly string[]): FileFinder {
  const paths = new Set(all)
  const byName = new Map<string, string[]>()
  for (const path of all.filter((file) => !/\.(ts|md|svelte)$/.test(file) && basename(file).includes('.')))
    byName.set(basename(path), [...(byName.get(basename(path)) ?? []), path])
  return (name) => {
    const built = /(?:^|\/)dist\/(.+)$/.exec(name)?.[1]
    const path = (built ?? name).replace(/^\.\//, '')
    const source = path.replace(/\.js$/, '.ts')
    if (paths.has(path)) return [path]
    if (paths.has(source) && !path.startsWith('.')) return [source]
    if (built !== undefined) return all.filter((file) => file.startsWith(`${built}/`))
    return byName.get(basename(path)) ?? []
  }
}

const comments = /\/\*[\s\S]*?\*\/|(?<!:)\/\/.*$|^\s*#.*$/gm

function namedFiles(text: string, find: FileFinder): string[] {
  const names = new Set(text.replace(comments, '').match(/[\w@./-]*[\w-][./][\w./-]*\w/g))
  return [...names].flatMap((name) => [...find(name)])
}

function git(...args: string[]): string[] {
  const text = execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  return text.split('\n').filter(Boolean)
}
