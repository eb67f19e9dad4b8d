import type { ElementId } from './plan-guest.js'
import { guestSets } from '../ruleset/guest-sets.js'

/** The tables as nft prints them, split into the constant part and the parts that belong to guests. */
export interface ParsedTables {
  /** The text without the elements of sets that guests or packets change, and without guests' firewalls. */
  readonly structure: string
  readonly elements: ReadonlyMap<ElementId, string>
  /** Bytes that each element has counted, in the sets that count traffic. */
  readonly counted: ReadonlyMap<ElementId, number>
  /** Guests' chains as printed, by name. */
  readonly chains: ReadonlyMap<string, string>
}

const connections = ['outbound', 'inbound']
const dynamicSets = [
  'pings',
  'pings6',
  'senders',
  'senders6',
  'forged',
  'limited',
  ...connections,
  ...connections.map((name) => `${name}_full`),
]
const variableNames = [...Object.keys(guestSets), ...dynamicSets]
const variableSet = new RegExp(
  String.raw`^\t(?:set|map) (?<name>${variableNames.join('|')}) \{\n` +
    String.raw`(?<head>[^}]*?)(?:\t\telements = \{(?<body>[^}]*)\}\n)?\t\}$`,
  'gm',
)
const guestChain =
  /^\tchain (?<name>(?:in|out|note)_[a-z]{1,4}\d{1,10}(?:_[0-9a-f]+)?) \{\n(?<body>(?:\t\t.*\n)*)\t\}\n/gm
const counter = / counter packets \d+ bytes (\d+)$/

/** Parses the output of `nft -n list table` for one or more tables. */
export function parseTables(text: string): ParsedTables {
  const elements = new Map<ElementId, string>()
  const counted = new Map<ElementId, number>()
  const chains = new Map<string, string>()
  let structure = ''
  let end = 0
  for (const match of text.matchAll(variableSet)) {
    const { name = '', head = '', body = '' } = match.groups ?? {}
    if (name in guestSets) parseSet(name, body, { elements, counted })
    structure += `${text.slice(end, match.index)}\tset ${name} {\n${head}\t}`
    end = match.index + match[0].length
  }
  const rest = (structure + text.slice(end)).replace(guestChain, (_, name: string, body: string) => {
    chains.set(name, body)
    return ''
  })
  return { structure: rest.replace(/\n{2,}/g, '\n'), elements, counted, chains }
}

interface ParsedElements {
  readonly elements: Map<ElementId, string>
  readonly counted: Map<ElementId, number>
}

function parseSet(name: string, body: string, { elements, counted }: ParsedElements): void {
  for (const element of body.split(',').map(oneBlank).filter(Boolean)) {
    const bytes = counter.exec(element)?.[1]
    const [key = '', value = ''] = element.replace(counter, '').split(' : ')
    const id = `${name} ${key}` as ElementId
    elements.set(id, value)
    if (bytes !== undefined) counted.set(id, Number(bytes))
  }
}

function oneBlank(text: string): string {
  return text.trim().replace(/\s+/g, ' ')
}
