import { existsSync, readFileSync } from 'node:fs'
import { SourceMap, type SourceMapPayload } from 'node:module'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * Translates places in compiled files to places in their sources. The option --enable-source-maps would do the same,
 * but it makes every process read the maps of all files that it loads, even if nothing fails.
 */

const place = /file:\/\/(\/[^\s:()]+\.js):(\d+):(\d+)/g
const maps = new Map<string, SourceMap | undefined>()

/** Replaces each `file:///….js:LINE:COLUMN` in a text, for example in a stack. Places without a map stay. */
export function mapPlaces(text: string): string {
  return text.replaceAll(place, (whole, path: string, line: string, column: string) => {
    const file = fileURLToPath(`file://${path}`)
    const entry = mapOf(file)?.findEntry(Number(line) - 1, Number(column) - 1)
    if (!entry || !('originalSource' in entry)) return whole
    const source = resolve(dirname(file), entry.originalSource)
    return `${source}:${entry.originalLine + 1}:${entry.originalColumn + 1}`
  })
}

function mapOf(file: string): SourceMap | undefined {
  const path = `${file}.map`
  if (!maps.has(file))
    maps.set(
      file,
      existsSync(path) ? new SourceMap(JSON.parse(readFileSync(path, 'utf8')) as SourceMapPayload) : undefined,
    )
  return maps.get(file)
}
