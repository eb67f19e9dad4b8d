import { printable } from '../output/width.js'
import { usageError } from '../errors.js'
import type { Path } from './forms.js'
import type { Problem } from './plan-wanted.js'

/* This module reads a fleet file and finds the positions of its values. */

export interface FleetFile {
  /** The value of each YAML document. */
  readonly documents: readonly unknown[]
  /** Returns the text of a problem with its line and column. */
  describe(problem: Problem): string
}

type Yaml = typeof import('../yaml.js')
type Document = ReturnType<Yaml['parseAllDocuments']>[number]
type Lines = InstanceType<Yaml['LineCounter']>

/** @throws {CliError} `usage` with the position of each syntax error */
export async function readFleetFile(name: string, text: string): Promise<FleetFile> {
  const { parseAllDocuments, LineCounter } = await import('../yaml.js')
  const lineCounter = new LineCounter()
  const documents = [...parseAllDocuments(text, { lineCounter, prettyErrors: false })]
  const errors = documents.flatMap((document) => document.errors)
  if (errors.length > 0)
    throw usageError(errors.map(({ message, pos }) => `${at(name, lineCounter, pos[0])}${message}`).join('\n'))
  return {
    documents: documents.map((document) => valueOf(name, document)),
    describe: ({ document, path, message }) => {
      const found = documents[document]
      const place = at(name, lineCounter, found === undefined ? 0 : offsetOf(found, path))
      return printable(`${place}${[...path, ''].join('.').replace(/\.$/, ': ')}${message}`)
    },
  }
}

/** @throws {CliError} `usage` if an alias is unknown, or if aliases make the document too large */
function valueOf(name: string, document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 }) as unknown
  } catch (cause) {
    throw usageError(`${name}: ${(cause as Error).message}`)
  }
}

function at(name: string, lines: Lines, offset: number): string {
  const { line, col } = lines.linePos(offset)
  return `${name}:${Math.max(1, line)}:${Math.max(1, col)}: `
}

/** Returns the position of the value. If it does not exist, returns the position of the closest part around it. */
function offsetOf(document: Document, path: Path): number {
  for (let length = path.length; length > 0; length--) {
    const offset = ownOffset(document, path.slice(0, length))
    if (offset !== undefined) return offset
  }
  return document.contents?.range?.[0] ?? 0
}

/** Returns the position of a key or of an entry of a list; undefined if the document does not contain it. */
function ownOffset(document: Document, path: Path): number | undefined {
  const parent: unknown = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true)
  const { items } = (parent ?? {}) as { items?: readonly PositionedItem[] }
  const last = path.at(-1)
  const item = typeof last === 'number' ? items?.[last] : items?.find(({ key }) => key?.value === last)
  return (item?.key ?? item)?.range?.[0]
}

interface PositionedItem {
  readonly range?: readonly [number, ...number[]]
  readonly key?: { readonly value: unknown; readonly range?: readonly [number, ...number[]] }
}
