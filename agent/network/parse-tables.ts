import type { GuestElements } from './plan-guest.js'

/** A table's text, taken apart: what is the same for all guests, and the elements. */
export interface ParsedTable {
  /** Without the contents of sets that change. */
  readonly structure: string
  /** Elements by set or map, one string each, blanks made one. */
  readonly elements: ReadonlyMap<string, readonly string[]>
}

const variableSet =
  /^\t(?:set|map) (?<name>guests|ports|pings|(?:out|in)bound(?:_full)?) \{\n(?<head>[^}]*?)(?:\t\telements = \{(?<body>[^}]*)\}\n)?\t\}$/gm

/** The output of `nft -n -s list table`. */
export function parseTable(text: string): ParsedTable {
  const elements = new Map<string, string[]>()
  let structure = ''
  let end = 0
  for (const match of text.matchAll(variableSet)) {
    const { name = '', head = '', body = '' } = match.groups ?? {}
    elements.set(name, body.split(',').map(oneBlank).filter(Boolean))
    structure += `${text.slice(end, match.index)}\tset ${name} {\n${head}\t}`
    end = match.index + match[0].length
  }
  return { structure: structure + text.slice(end), elements }
}

function oneBlank(text: string): string {
  return text.trim().replace(/\s+/g, ' ')
}

/** Elements of the bridge and ip tables in the form of the plans. */
export function parseElements(bridge: ParsedTable, ip: ParsedTable): GuestElements {
  const ports = (ip.elements.get('ports') ?? []).map((element): [string, string] => {
    const [key = '', target = ''] = element.split(' : ')
    return [key, target]
  })
  return { guests: bridge.elements.get('guests') ?? [], ports: new Map(ports) }
}
