import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { runBuild } from './repository.js'

/** The commit of the previous version. Tests combine packages of this version with those of the current version. */
const previousCommit = 'eee0dc17701830f6e45e4e47f31af6f12502ef98'
const cache = '/var/cache/berth-test'

/**
 * Builds the packages of the previous version for amd64. They are built only once, because the commit never changes.
 * @param scratch directory for the sources
 * @returns the directory of the packages
 * @throws if the repository does not contain the commit, for example because it is a shallow clone
 */
export function buildPrevious(version: string, scratch: string): string {
  const kept = join(cache, `packages-${previousCommit.slice(0, 12)}-${version}`)
  if (existsSync(kept)) return kept
  const [checkout, fresh] = [join(scratch, 'previous'), `${kept}.new`]
  extractCommit(checkout)
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { recursive: true })
  runBuild('scripts/package', ['--arch', 'amd64', '--output', fresh, '--package-version', version], checkout)
  renameSync(fresh, kept)
  return kept
}

function extractCommit(checkout: string): void {
  mkdirSync(checkout)
  const archive = `${checkout}.tar`
  execFileSync('git', ['archive', '--output', archive, previousCommit])
  execFileSync('tar', ['-xf', archive, '-C', checkout])
  shareModules(checkout)
}

/** Links the npm packages into an older checkout. If the checkout needs other packages, it installs its own. */
function shareModules(checkout: string): void {
  const textOf = (path: string): string =>
    ['package.json', 'package-lock.json'].map((name) => readFileSync(join(path, name), 'utf8')).join()
  if (textOf(checkout) === textOf('.')) symlinkSync(resolve('node_modules'), join(checkout, 'node_modules'))
}
