import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { compactOperations, type ApiDocument } from '../../cli/catalog/compact.js'
import { operationsFile } from '../../cli/catalog/load.js'
import { treeFile } from '../../cli/completion/load-tree.js'
import { completionTree } from '../../cli/manual/completion-tree.js'
import { manualFile, manualPage } from '../../cli/manual/manual-page.js'
import { downloadFile, versionPlaceholder } from '../../gateway/http/cli-download.js'
import { version } from '../../shared/version.js'
import { apiDocument } from './api-document.js'
import { bundleParts } from './bundle-parts.js'

/** Writes the files of the command line that the build derives from the OpenAPI document. */
export async function writeCliFiles(): Promise<void> {
  const operations = compactOperations(apiDocument() as ApiDocument)
  mkdirSync('dist/cli/catalog', { recursive: true })
  writeFileSync(join('dist/cli/catalog', operationsFile), JSON.stringify(operations))
  writeFileSync(join('dist/cli', manualFile), manualPage(operations))
  const tree = completionTree(operations)
  mkdirSync('dist/cli/completion', { recursive: true })
  writeFileSync(join('dist/cli/completion', treeFile), JSON.stringify(tree))
  const program = await bundleParts('cli/main.ts', {
    'cli/catalog/load.ts': `export const loadOperations = () => ${parsed(operations)}`,
    'cli/completion/load-tree.ts': `export const loadTree = () => ${parsed(tree)}`,
    'shared/version.ts': `export const version = ${JSON.stringify(versionPlaceholder)}`,
  })
  writeFileSync(join('dist/gateway', downloadFile), program, { mode: 0o755 })
  writeNpmPackage()
}

/** Writes the npm package of the command line. Its program is the gateway's download with this checkout's version. */
function writeNpmPackage(): void {
  const directory = 'dist/npm'
  mkdirSync(directory, { recursive: true })
  const program = readFileSync(join('dist/gateway', downloadFile), 'utf8').replaceAll(versionPlaceholder, version)
  writeFileSync(join(directory, 'berth.cjs'), program, { mode: 0o755 })
  copyFileSync(join('dist/cli', manualFile), join(directory, manualFile))
  const described = JSON.parse(readFileSync('cli/package.json', 'utf8')) as object
  writeFileSync(join(directory, 'package.json'), `${JSON.stringify({ ...described, version }, undefined, 2)}\n`)
  copyFileSync('cli/README.md', join(directory, 'README.md'))
}

/** Returns an expression for a value. V8 reads JSON faster than an object literal. */
const parsed = (value: unknown): string => `JSON.parse(${JSON.stringify(JSON.stringify(value))})`
