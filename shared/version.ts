import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The product's version (semver) from package.json, which is next to the sources or one level above the build. */
export const version: string = readVersion()

function readVersion(): string {
  const file = ['..', '../..']
    .map((up) => join(import.meta.dirname, up, 'package.json'))
    .find((path) => existsSync(path))
  if (file === undefined) throw new Error('package.json is missing from the installation')
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
