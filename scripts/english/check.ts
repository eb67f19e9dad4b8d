import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { rules } from './rules.js'
import { textsOf } from './texts.js'

/* Finds sentence openings and words that plain English avoids, in the given files or in all files. */

const checked = /\.(ts|mjs|svelte|proto|md|sh|pl|py|service|yaml)$|^scripts\/[\w-]+$|^\.ci\/run$/
const ignored = /(^|\/)(proto\/gen|scripts\/english)\/|\.gen\.ts$|\/i18n\/zh\//

function main(paths: readonly string[]): void {
  const violations = filesOf(paths).flatMap(violationsIn)
  for (const violation of violations) console.log(violation)
  if (violations.length > 0) process.exitCode = 1
}

function filesOf(paths: readonly string[]): string[] {
  const tracked = execFileSync('git', ['ls-files', ...paths], { encoding: 'utf8' }).split('\n')
  return tracked.filter((path) => checked.test(path) && !ignored.test(path))
}

function violationsIn(path: string): string[] {
  return textsOf(path, readFileSync(path, 'utf8')).flatMap(({ line, text }) =>
    rules.flatMap(({ name, pattern, advice }) =>
      [...text.matchAll(pattern)].map(
        ({ index }) => `${path}:${line}: ${name} (${advice}): ${text.slice(Math.max(0, index - 20), index + 60)}`,
      ),
    ),
  )
}

main(process.argv.slice(2))
