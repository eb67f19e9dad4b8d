// Compiles product and tests into a directory, where all of the repository that they ask for is at its usual place:
// JavaScript with source maps for TypeScript, links for the rest. Types are not checked.
//   node scripts/lib/compile-tests.mjs DIRECTORY
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundle } from './bundle.mjs'

const folders = ['agent', 'gateway', 'shared', 'proto', 'scripts', 'test']
const linked = ['dist', 'node_modules', 'package.json']
// What tests write, and what the panel's own build puts together.
const isLeftOut = (file) => /^test\/browser\/out\/|^gateway\/panel\/(?!src\/)/.test(file)
// Imports in the panel's sources name files as they are: those that tests load are bundled.
const isOfPanel = (file) => file.startsWith('gateway/panel/')
const isLoadedOfPanel = (file) => /\.test\.ts$|\/i18n\/\w+\/index\.ts$/.test(file)

function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !isLeftOut(file))
}

function link(path, directory) {
  if (!existsSync(path)) return
  const at = join(directory, path)
  mkdirSync(dirname(at), { recursive: true })
  symlinkSync(resolve(path), at)
}

// Every source keeps a file of its own, which tests may import or start by its name; packages that the product runs on are
// put together.
async function compile(entryPoints, directory, options) {
  const placeOf = (file) => JSON.stringify(pathToFileURL(join(resolve(directory), file)).href)
  await bundle(
    { entryPoints, outdir: directory, outbase: '.', chunkNames: 'chunks/[hash]', ...options },
    placeOf,
  )
}

const directory = process.argv[2]
if (!directory) throw new Error('compile-tests.mjs DIRECTORY')
const files = folders.flatMap(filesBelow)
const sources = files.filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'))
const ofPanel = sources.filter((file) => isOfPanel(file) && isLoadedOfPanel(file))
const others = files.filter((file) => !file.endsWith('.ts') && !isOfPanel(file))
const { devDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
for (const path of [...linked, ...others]) link(path, directory)
await Promise.all([
  compile(
    sources.filter((file) => !isOfPanel(file)),
    directory,
    { external: Object.keys(devDependencies) },
  ),
  compile(ofPanel, directory, { packages: 'external' }),
])
