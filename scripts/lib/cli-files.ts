import type { Plugin } from 'esbuild'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { compactOperations, type ApiDocument } from '../../cli/catalog/compact.js'
import { operationsFile } from '../../cli/catalog/load.js'
import type { Operation } from '../../cli/catalog/operation.js'
import { manualFile, manualPage } from '../../cli/manual/manual-page.js'
import { downloadFile, versionPlaceholder } from '../../gateway/http/cli-download.js'
import { version } from '../../shared/version.js'
import { apiDocument } from './api-document.js'
import { bundle } from './bundle.js'

/** Writes the files of the command line that the build derives from the OpenAPI document. */
export async function writeCliFiles(): Promise<void> {
  const operations = compactOperations(apiDocument() as ApiDocument)
  mkdirSync('dist/cli/catalog', { recursive: true })
  writeFileSync(join('dist/cli/catalog', operationsFile), JSON.stringify(operations))
  writeFileSync(join('dist/cli', manualFile), manualPage(operations))
  await buildDownload(operations)
  writeNpmPackage()
}

/** Writes the npm package of the command line: the file that the gateway offers, with the version of this checkout. */
function writeNpmPackage(): void {
  const directory = 'dist/npm'
  mkdirSync(directory, { recursive: true })
  const program = readFileSync(join('dist/gateway', downloadFile), 'utf8').replace(versionPlaceholder, version)
  writeFileSync(join(directory, 'berth.cjs'), program, { mode: 0o755 })
  copyFileSync(join('dist/cli', manualFile), join(directory, manualFile))
  const described = JSON.parse(readFileSync('cli/package.json', 'utf8')) as object
  writeFileSync(join(directory, 'package.json'), `${JSON.stringify({ ...described, version }, undefined, 2)}\n`)
  copyFileSync('cli/README.md', join(directory, 'README.md'))
}

/** Bundles the command line into one file, which the gateway offers for download. */
async function buildDownload(operations: readonly Operation[]): Promise<void> {
  const outfile = join('dist/gateway', downloadFile)
  const options = { splitting: false, format: 'cjs', minify: true, sourcemap: false, banner: {} } as const
  await bundle({ entryPoints: ['cli/main.ts'], outfile, plugins: [constants(operations)], ...options }, noAddress)
}

/** Replaces modules that read files next to them, because there are no files next to the single file. */
function constants(operations: readonly Operation[]): Plugin {
  const sources: Readonly<Record<string, string>> = {
    'cli/catalog/load.ts': `export const loadOperations = () => ${JSON.stringify(operations)}`,
    'shared/version.ts': `export const version = ${JSON.stringify(versionPlaceholder)}`,
  }
  return {
    name: 'constants',
    setup(plugged) {
      for (const [file, contents] of Object.entries(sources)) {
        readFileSync(file) // fails if the module was moved
        plugged.onLoad({ filter: new RegExp(`/${file.replace('.', '\\.')}$`) }, () => ({ contents, loader: 'ts' }))
      }
    },
  }
}

/** Always throws, because there are no files next to the single file. */
function noAddress(file: string): never {
  throw new Error(`${file} is part of the command line and must not use import.meta`)
}
