import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { BuildOptions } from 'esbuild'
import { bundle } from '../lib/bundle.js'

/*
 * Compiles the product and the tests once per run, without checking types. The output directory looks like the
 * repository: it contains JavaScript with source maps in place of TypeScript, and links for all other files.
 */

const folders = ['agent', 'cli', 'client', 'gateway', 'panel', 'shared', 'proto', 'scripts', 'test']
const linked = ['dist', 'node_modules', 'package.json']

/** True for files that tests write, and for files of the panel that only the panel's own build reads. */
const isLeftOut = (file: string): boolean => /^test\/browser\/out\/|node_modules\/|^panel\/(?!src\/)/.test(file)
/** True for the panel. Its imports have no file extensions, so the parts that tests load must be bundled. */
const isOfPanel = (file: string): boolean => file.startsWith('panel/')
const isPanelEntry = (file: string): boolean => /\.test\.ts$|\/i18n\/\w+\/index\.ts$/.test(file)
const isSource = (file: string): boolean => file.endsWith('.ts') && !file.endsWith('.d.ts')

/** @param directory output directory. It is created if it does not exist; otherwise it must be empty. */
export async function compile(directory: string): Promise<void> {
  const files = folders.flatMap(filesBelow)
  const others = files.filter((file) => !file.endsWith('.ts') && !isOfPanel(file))
  for (const path of [...linked, ...others]) link(path, directory)
  const { own, panel } = entryPoints(files)
  const { devDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as PackageJson
  await Promise.all([
    compileInto(directory, { entryPoints: own, external: Object.keys(devDependencies) }),
    compileInto(directory, { entryPoints: panel, packages: 'external' }),
  ])
}

interface PackageJson {
  readonly devDependencies: Record<string, string>
}

/** Returns all files that tests can use. */
export function allFiles(): string[] {
  return [...folders, 'docs', 'systemd'].flatMap(filesBelow)
}

/** Returns every source of the repository that a test can load. */
export function allEntryPoints(): string[] {
  const { own, panel } = entryPoints(folders.flatMap(filesBelow))
  return [...own, ...panel]
}

function entryPoints(files: readonly string[]): { own: string[]; panel: string[] } {
  const sources = files.filter(isSource)
  return {
    own: sources.filter((file) => !isOfPanel(file)),
    panel: sources.filter((file) => isOfPanel(file) && isPanelEntry(file)),
  }
}

/** Compiles every source to a separate file, because tests import or start each file by its name. */
async function compileInto(directory: string, options: BuildOptions): Promise<void> {
  const addressOf = (file: string): string => JSON.stringify(pathToFileURL(join(resolve(directory), file)).href)
  await bundle({ outdir: directory, outbase: '.', chunkNames: 'chunks/[hash]', ...options }, addressOf)
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !isLeftOut(file))
}

function link(path: string, directory: string): void {
  if (!existsSync(path)) return
  const at = join(directory, path)
  mkdirSync(dirname(at), { recursive: true })
  symlinkSync(resolve(path), at)
}
