import { transform, type OutputFile, type Plugin } from 'esbuild'
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { bundle } from './bundle.js'

/*
 * Bundles a program into one CommonJS file, of which a command compiles only the parts that it uses. V8 reads the whole
 * text of a module before it runs the module. Therefore, all parts except the entry are strings, and V8 compiles each
 * of them at its first use.
 */

const outdir = '/parts'

/**
 * @param entry source that runs at the start
 * @param replaced new sources of modules by their path, for modules that would read files next to the bundle
 */
export async function bundleParts(entry: string, replaced: Readonly<Record<string, string>>): Promise<string> {
  const { outputFiles = [] } = await bundle(
    {
      entryPoints: { entry },
      outdir,
      chunkNames: '[name]-[hash]',
      write: false,
      minify: true,
      sourcemap: false,
      banner: {},
      plugins: [replaceSources(replaced)],
    },
    noAddress,
  )
  const parts = await Promise.all(outputFiles.map(partOf))
  return `#!/usr/bin/env node\n'use strict'\n${loader(Object.fromEntries(parts))}`
}

/** Returns name and source of a part, which gets `exports`, `require` and `module` like each module of CommonJS. */
async function partOf({ path, text }: OutputFile): Promise<[string, string]> {
  const { code } = await transform(text.replace(/^#!.*/, ''), {
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    minify: true,
    supported: { 'dynamic-import': false },
  })
  return [basename(path), code]
}

const loader = (parts: Readonly<Record<string, string>>): string => `const parts = ${JSON.stringify(parts)}
const { compileFunction } = require('node:vm')
const loaded = new Map()
function load(name) {
  const part = Object.hasOwn(parts, name.slice(2)) ? parts[name.slice(2)] : undefined
  if (part === undefined) return require(name)
  const known = loaded.get(name)
  if (known) return known.exports
  const module = { exports: {} }
  loaded.set(name, module)
  compileFunction(part, ['exports', 'require', 'module'], { filename: __filename + '/' + name.slice(2) })(module.exports, load, module)
  return module.exports
}
load('./entry.js')
`

function replaceSources(sources: Readonly<Record<string, string>>): Plugin {
  return {
    name: 'replace-sources',
    setup(plugged) {
      for (const [file, contents] of Object.entries(sources)) {
        readFileSync(file) // fails if the module was moved
        plugged.onLoad({ filter: new RegExp(`/${file.replace('.', '\\.')}$`) }, () => ({ contents, loader: 'ts' }))
      }
    },
  }
}

/** Always throws. The bundle has no files next to it, so its sources must not look for them with `import.meta`. */
function noAddress(file: string): never {
  throw new Error(`${file} is part of the command line and must not use import.meta`)
}
