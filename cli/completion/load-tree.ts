import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Level } from './plan-completion.js'

/** Name of the file that the build writes to the directory of this module in `dist`. */
export const treeFile = 'tree.json'

export function loadTree(): Level {
  return JSON.parse(readFileSync(join(import.meta.dirname, treeFile), 'utf8')) as Level
}
