import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/* Rejects two exported classes with the same name, because a reader would confuse them. */

const files = execFileSync('git', ['ls-files', 'agent', 'cli', 'client', 'gateway', 'panel', 'shared'], {
  encoding: 'utf8',
}).split('\n')
const filesByName = new Map<string, string[]>()
for (const file of files.filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts')))
  for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(/^export (?:abstract )?class (\w+)/gm))
    filesByName.set(name, [...(filesByName.get(name) ?? []), file])

const duplicates = [...filesByName].filter(([, { length }]) => length > 1)
for (const [name, list] of duplicates) console.log(`${name}: ${list.join(', ')}`)
process.exitCode = duplicates.length > 0 ? 1 : 0
