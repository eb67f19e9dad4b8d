import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Parts of the installation script (install/NAME.sh), in their order. */
const parts = [
  'settings',
  'reporting',
  'machine',
  'downloads',
  'packages',
  'join',
  'versions',
  'signature',
  'upgrade',
  'return',
  'removal',
  'main',
] as const

/**
 * Joins the parts of the shell script that installs, upgrades and removes the agent of a host.
 * @param directory directory of the parts
 */
export function composeInstallScript(directory: string): string {
  return parts.map((part) => readFileSync(join(directory, `${part}.sh`), 'utf8')).join('\n')
}
