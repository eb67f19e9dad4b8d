import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** The commit of the version before the present one. Its packages are built and tested next to the present ones. */
export const previousCommit = 'eee0dc17701830f6e45e4e47f31af6f12502ef98'

/**
 * Extracts the sources of a commit, ready to build.
 * @throws if the repository does not contain the commit, for example because it is a shallow clone
 */
export function extractCommit(commit: string, directory: string): void {
  mkdirSync(directory, { recursive: true })
  const archive = `${directory}.tar`
  execFileSync('git', ['archive', '--output', archive, commit])
  execFileSync('tar', ['-xf', archive, '-C', directory])
  rmSync(archive)
  shareModules(directory)
}

/** Lets a checkout use the npm packages of this one. A checkout that needs other packages installs its own. */
function shareModules(checkout: string): void {
  const textOf = (path: string): string =>
    ['package.json', 'package-lock.json'].map((name) => readFileSync(join(path, name), 'utf8')).join()
  if (textOf(checkout) === textOf('.')) symlinkSync(resolve('node_modules'), join(checkout, 'node_modules'))
}
