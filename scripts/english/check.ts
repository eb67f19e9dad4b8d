import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { rules } from './rules.js'
import { textsOf } from './texts.js'

/*
 * Rejects openings and words that plain English avoids. `known.json` has the number of violations that each file still
 * contains; the numbers may only shrink.
 *   check.ts            lists the files that have more violations than known
 *   check.ts PATH...    lists every violation in these files
 *   check.ts --update   lowers the known numbers to the present ones
 */

const knownFile = new URL('known.json', import.meta.url)
const checked = /\.(ts|mjs|svelte|proto|md|sh|pl|yaml)$|^scripts\/(up|down|test|check|bench)$/
const ignored = /(^|\/)(proto\/gen|scripts\/english)\/|\.gen\.ts$|\/i18n\/zh\//

interface Violation {
  readonly line: number
  readonly rule: string
  readonly text: string
}

type Counts = Record<string, number>

function main(args: string[]): void {
  const known = JSON.parse(readFileSync(knownFile, 'utf8')) as Counts
  const paths = args.filter((arg) => !arg.startsWith('--'))
  const found = new Map(filesOf(paths).map((path) => [path, violationsIn(path)]))
  const reported = [...found].filter(([path, list]) => paths.length > 0 || list.length > (known[path] ?? 0))
  for (const [path, list] of reported)
    for (const { line, rule, text } of list) console.log(`${path}:${line}: ${rule}: ${text}`)
  if (args.includes('--update')) update(known, found)
  else if (paths.length === 0 && reported.length > 0) process.exitCode = 1
}

function filesOf(paths: readonly string[]): string[] {
  const tracked = execFileSync('git', ['ls-files', ...paths], { encoding: 'utf8' }).split('\n')
  return tracked.filter((path) => checked.test(path) && !ignored.test(path))
}

function violationsIn(path: string): Violation[] {
  return textsOf(path, readFileSync(path, 'utf8')).flatMap(({ line, text }) =>
    rules.flatMap(({ name, pattern, advice }) =>
      [...text.matchAll(pattern)].map(({ index }) => ({
        line,
        rule: `${name} (${advice})`,
        text: text.slice(Math.max(0, index - 20), index + 60),
      })),
    ),
  )
}

/** Files that are new to the list must be free of violations, unless the list is empty. */
function update(known: Counts, found: ReadonlyMap<string, readonly Violation[]>): void {
  const isFirst = Object.keys(known).length === 0
  const counts = [...found].map(
    ([path, { length }]) => [path, isFirst ? length : Math.min(length, known[path] ?? 0)] as const,
  )
  const list = Object.fromEntries(counts.filter(([, count]) => count > 0))
  writeFileSync(knownFile, `${JSON.stringify(list, undefined, 2)}\n`)
}

main(process.argv.slice(2))
