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
  return parts.map((part) => readPart(directory, part)).join('\n')
}

/** Wraps the installation script in a launcher, which hides the join token from other users of the machine. */
export function addLauncher(directory: string, script: string): string {
  return readPart(directory, 'launcher').replace('@SCRIPT@\n', () => script)
}

function readPart(directory: string, name: string): string {
  return readFileSync(join(directory, `${name}.sh`), 'utf8')
}
