import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Operation } from './operation.js'

/** Name of the file that the build writes to the directory of this module in `dist`. */
export const operationsFile = 'operations.json'

export function loadOperations(): Operation[] {
  return JSON.parse(readFileSync(join(import.meta.dirname, operationsFile), 'utf8')) as Operation[]
}
